"""Hermes and Qwen: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several per turn."""

from collections.abc import Sequence

from rft.chat.json_text import read_members, skip_space
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, checked_call, unreadable
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, THINK_TAGS, split_thinking
from rft.core.messages import NAMED_JSON_CALL, ToolSchema

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class HermesSyntax(PlainIds):
    """JSON in tags; thinking is neither content nor calls."""

    name = "hermes"
    markers = (OPEN,)
    control_literals = (OPEN, CLOSE, "<tool_response>", "</tool_response>", THINK_OPEN, THINK_CLOSE)
    stop_literals = ()
    thought_marks = THINK_TAGS
    call_shape = NAMED_JSON_CALL

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not exactly one JSON object with a string `name` and an object (or JSON text of one)
        `arguments` cannot be read. The last block may lack its closing tag."""
        del tools
        reasoning, visible = split_thinking(text, call_open=OPEN, is_opened=is_thinking)
        pieces: list[str] = []
        calls: list[WrittenCall] = []
        start = 0
        while (opened := visible.find(OPEN, start)) >= 0:
            pieces.append(visible[start:opened])
            call, start = _read_block(visible, opened + len(OPEN))
            calls.append(call)
        pieces.append(visible[start:])
        return WrittenTurn("".join(pieces).strip(), tuple(calls), reasoning)


def _read_block(text: str, start: int) -> tuple[WrittenCall, int]:
    """The call of the block whose content begins at `start`, and where the text after the block begins."""
    try:
        call, stop = _read_call(text, skip_space(text, start))
        after = skip_space(text, stop)
        if after == len(text):
            return call, after
        if text.startswith(CLOSE, after):
            return call, after + len(CLOSE)
    except (ValueError, RecursionError):
        pass  # The model's mistake: handed back below as a call that cannot be read.
    return raw_block(text, start, OPEN, CLOSE)


def raw_block(text: str, start: int, open_tag: str, close_tag: str) -> tuple[WrittenCall, int]:
    """A block that cannot be read: it ends at its closing tag, or where the next one opens before that."""
    reopened = text.find(open_tag, start)
    end = len(text) if reopened < 0 else reopened
    closed = text.find(close_tag, start, end)
    if closed < 0:
        return unreadable(text[start:end]), end
    return unreadable(text[start:closed]), closed + len(close_tag)


def _read_call(text: str, start: int) -> tuple[WrittenCall, int]:
    """Raises ValueError or RecursionError."""
    members, end = read_members(text, start)
    if "name" not in members or "arguments" not in members:
        raise ValueError("a call needs name and arguments")
    return checked_call(members["name"].value, members["arguments"]), end
