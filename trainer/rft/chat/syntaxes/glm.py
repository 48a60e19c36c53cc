"""GLM 4.5 and later: `<tool_call>NAME`, then `<arg_key>`, `<arg_value>` in pairs, then `</tool_call>`."""

import re
from collections.abc import Sequence

from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn
from rft.chat.syntaxes.blocks import Argument, ArgumentReader, Places, read_blocks
from rft.chat.syntaxes.tagged_json import raw_block
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, THINK_TAGS
from rft.core.messages import ToolSchema

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_NAME = re.compile(r"\s*([^\s<>]+)\s*")
_KEY, _VALUE = "<arg_key>", re.compile(r"</arg_key>\s*<arg_value>")
_PAIR_END = re.compile(r"</arg_value>\s*")


class GlmSyntax(PlainIds):
    """Values stand unquoted between tags; a turn has no end of its own, the next speaker's mark ends it."""

    name = "glm"
    markers = ("<arg_key>",)
    control_literals = (
        *(_OPEN, _CLOSE, "<tool_response>", "</tool_response>", THINK_OPEN, THINK_CLOSE),
        *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    )
    stop_literals = ("<|observation|>", "<|user|>")
    results_opening = "<|observation|>"
    thought_marks = THINK_TAGS
    call_shape = "the tool's name, then `<arg_key>KEY</arg_key>` and `<arg_value>VALUE</arg_value>` for each argument"

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not a name and pairs of tags cannot be read."""
        return read_blocks(
            text, opening=_OPEN, reader=lambda visible: _Blocks(visible, tools).read, is_thinking=is_thinking
        )


class _Blocks:
    def __init__(self, text: str, tools: Sequence[ToolSchema]) -> None:
        self._text, self._tools = text, tools
        self._values, self._ends = Places(_VALUE, text), Places(_PAIR_END, text)
        self._arguments = ArgumentReader(text, argument=self._pair, block_end=self._block_end)

    def read(self, start: int) -> tuple[WrittenCall, int]:
        name = _NAME.match(self._text, start)
        call = None
        if name is not None and name[1].isprintable():
            call = self._arguments.read(name.end(), self._tools, name[1])
        return raw_block(self._text, start, _OPEN, _CLOSE) if call is None else call

    def _pair(self, position: int) -> Argument | None:
        begin = position + len(_KEY)
        if not self._text.startswith(_KEY, position) or (value := self._values.next(begin)) is None:
            return None
        end = self._ends.next(value[1])
        return None if end is None else Argument(slice(begin, value[0]), slice(value[1], end[0]), end[1])

    def _block_end(self, position: int) -> int | None:
        if position == len(self._text):
            return position
        return position + len(_CLOSE) if self._text.startswith(_CLOSE, position) else None
