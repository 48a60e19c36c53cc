"""Qwen3.5 to 3.8, Nemotron 3: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`."""

import re
from collections.abc import Sequence

from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn
from rft.chat.syntaxes.blocks import Argument, ArgumentReader, Places, read_blocks
from rft.chat.syntaxes.hermes import raw_block
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, THINK_TAGS
from rft.core.messages import ToolSchema

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^\n>\x00]+)>\s*")
_PARAMETER, _PARAMETER_END = re.compile(r"<parameter=([^\n>]+)>"), re.compile(r"</parameter>\s*")
_END = re.compile(r"</function>\s*(?:</tool_call>|\Z)")


class XmlParametersSyntax(PlainIds):
    """Values stand unquoted between tags; the tool's schema tells strings from numbers."""

    name = "qwen3_5"
    markers = ("<function=",)
    control_literals = (_OPEN, _CLOSE, "<tool_response>", "</tool_response>", THINK_OPEN, THINK_CLOSE)
    stop_literals = ()
    thought_marks = THINK_TAGS
    call_shape = "`<function=NAME>`, `<parameter=KEY>VALUE</parameter>` for each argument, then `</function>`"

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not one function with parameters cannot be read.

        Qwen3-Coder leaves out `<tool_call>` now and then, mostly behind what it says: a function of `tools` that begins
        a line and ends in `</tool_call>` is a call, too, where it ends the turn.
        """
        return read_blocks(
            text,
            opening=_OPEN,
            reader=lambda visible: _Blocks(visible, tools).read,
            is_thinking=is_thinking,
            unopened=_unopened(tools) if "<function=" in text else None,
        )


def _unopened(tools: Sequence[ToolSchema]) -> tuple[str, str] | None:
    """What stands around a function that lacks its opening mark."""
    names = "|".join(re.escape(tool.name) for tool in tools)
    return (rf"^[ \t]*(?=<function=(?:{names})>)", _CLOSE) if names else None


class _Blocks:
    def __init__(self, text: str, tools: Sequence[ToolSchema]) -> None:
        self._text, self._tools = text, tools
        self._ends = Places(_PARAMETER_END, text)
        self._arguments = ArgumentReader(
            text, argument=self._parameter, block_end=self._block_end, trimmed=_without_line_breaks
        )

    def read(self, start: int) -> tuple[WrittenCall, int]:
        function = _FUNCTION.match(self._text, start)
        name = "" if function is None else function[1].strip()
        call = None
        if function is not None and name and name.isprintable():
            call = self._arguments.read(function.end(), self._tools, name)
        return raw_block(self._text, start, _OPEN, _CLOSE) if call is None else call

    def _parameter(self, position: int) -> Argument | None:
        opened = _PARAMETER.match(self._text, position)
        end = None if opened is None else self._ends.next(opened.end())
        if opened is None or end is None:
            return None
        return Argument(slice(*opened.span(1)), slice(opened.end(), end[0]), end[1])

    def _block_end(self, position: int) -> int | None:
        end = _END.match(self._text, position)
        return None if end is None else end.end()


def _without_line_breaks(value: str) -> str:
    """Without the one that stands behind the opening tag and the one before the closing tag."""
    return value.removeprefix("\n").removesuffix("\n")
