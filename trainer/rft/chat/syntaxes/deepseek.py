"""DeepSeek V3 and later: calls between full-width marks, arguments as fenced JSON."""

import re
from collections.abc import Sequence

from rft.chat.json_text import read_json, skip_space
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, checked_call, unreadable
from rft.chat.thinking import THINK_TAGS, split_thinking
from rft.core.messages import ToolSchema

_CALLS, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _SEPARATOR, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_FENCE = "```"
"""Texts that do not end with it are not held against the pattern, which would try every line break in vain."""
_FENCED = re.compile(rf"\A([^\n]*)\n{_FENCE}(?:json)?\s*\n(.*){_FENCE}\Z", re.DOTALL)


class DeepSeekSyntax(PlainIds):
    """`function<｜tool▁sep｜>NAME`, a fence, arguments; V3.1 writes `NAME<｜tool▁sep｜>{...}` without a fence."""

    name = "deepseek_v3"
    markers = (_CALLS, "<｜Assistant｜>")
    control_literals = (
        *(_CALLS, _CALLS_END, _CALL, _SEPARATOR, _CALL_END, "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"),
        *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
    )
    stop_literals = ()
    thought_marks = THINK_TAGS
    call_shape = "the tool's name, then its arguments as one JSON object in a block that ```json opens and ``` closes"

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A call that is neither shape cannot be read; so is each section without a call."""
        del tools
        reasoning, visible = split_thinking(text, call_open=_CALLS, is_opened=is_thinking)
        content, *sections = visible.split(_CALLS)
        said, calls = [content], list[WrittenCall]()
        for section in sections:
            body, _, after = section.partition(_CALLS_END)
            _, *blocks = body.split(_CALL)
            calls.extend(map(_read_block, blocks) if blocks else [unreadable(body)])
            said.append(after)
        return WrittenTurn("".join(said).strip(), tuple(calls), reasoning)


def _read_block(block: str) -> WrittenCall:
    body, _, rest = block.partition(_CALL_END)
    head, _, tail = body.partition(_SEPARATOR)
    stripped = tail.strip()
    fenced = _FENCED.match(stripped) if stripped.endswith(_FENCE) else None
    name, arguments = (fenced[1], fenced[2]) if fenced is not None else (head, tail)
    try:
        found = read_json(arguments, 0)
        if skip_space(arguments, found.end) == len(arguments) and not rest.strip():
            return checked_call(name.strip(), found)
    except (ValueError, RecursionError):
        pass  # The model's mistake.
    return unreadable(body)
