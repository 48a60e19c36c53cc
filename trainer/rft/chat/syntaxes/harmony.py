"""gpt-oss: a turn is messages on channels, `analysis` for thoughts, `commentary` for calls, `final` for the answer."""

import re
from collections.abc import Sequence

from rft.chat.json_text import read_json, skip_space
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, checked_call, unreadable
from rft.chat.thinking import ThoughtMarks
from rft.core.messages import ToolSchema

_START, _CHANNEL, _MESSAGE, _END = "<|start|>", "<|channel|>", "<|message|>", "<|end|>"
_RETURN, _CALL, _CONSTRAIN = "<|return|>", "<|call|>", "<|constrain|>"
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_NAMESPACE = "functions."


class HarmonySyntax(PlainIds):
    """The prompt opens the first message; a call names its recipient before or behind the channel."""

    name = "gpt_oss"
    markers = (_CHANNEL,)
    control_literals = (_START, _CHANNEL, _MESSAGE, _END, _RETURN, _CALL, _CONSTRAIN)
    stop_literals = (_RETURN, _CALL)
    thought_marks = ThoughtMarks(
        f"{_CHANNEL}analysis{_MESSAGE}", (_END, _START, _RETURN, _CALL), f"{_END}{_START}assistant", has_several=True
    )
    answer_opening = f"{_CHANNEL}final{_MESSAGE}"
    call_shape = "the arguments as one JSON object, and nothing else, into the message to the tool"

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A message to a function whose text is not one JSON object cannot be read."""
        del tools, is_thinking
        thoughts: list[str] = []
        said: list[str] = []
        calls: list[WrittenCall] = []
        for message in _messages(text):
            head, mark, body = message.partition(_MESSAGE)
            if not mark:
                head, body = "", message
            recipient = _RECIPIENT.search(head)
            if recipient is not None:
                calls.append(_read_call(recipient[1], body))
            elif _channel(head) == "analysis":
                thoughts.append(body.strip())
            else:
                said.append(body.strip())
        return WrittenTurn("\n".join(filter(None, said)), tuple(calls), "\n".join(filter(None, thoughts)))


def _messages(text: str) -> list[str]:
    """A message ends at its end mark, or where the next one starts."""
    pieces = re.split(f"{re.escape(_START)}|{re.escape(_END)}|{re.escape(_RETURN)}|{re.escape(_CALL)}", text)
    return [piece for piece in pieces if piece.strip()]


def _channel(head: str) -> str:
    return re.split(r"[\s<]", head.partition(_CHANNEL)[2].strip() + " ")[0]


def _read_call(recipient: str, body: str) -> WrittenCall:
    try:
        found = read_json(body, 0)
        if skip_space(body, found.end) == len(body):
            return checked_call(recipient.removeprefix(_NAMESPACE), found)
    except (ValueError, RecursionError):
        pass  # The model's mistake.
    return unreadable(body)
