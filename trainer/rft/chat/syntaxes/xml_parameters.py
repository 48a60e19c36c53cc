"""Qwen3.5 to 3.8, Nemotron 3: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`;
Seed-OSS with marks of its own around it."""

import re
from collections.abc import Sequence

from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn
from rft.chat.syntaxes.blocks import Argument, ArgumentReader, Places, read_blocks
from rft.chat.syntaxes.tagged_json import raw_block
from rft.chat.thinking import THINK_TAGS, ThoughtMarks
from rft.core.messages import ToolSchema

_FUNCTION = re.compile(r"\s*<function=([^\n>\x00]+)>\s*")
_PARAMETER, _PARAMETER_END = re.compile(r"<parameter=([^\n>]+)>"), re.compile(r"</parameter>\s*")


class XmlParametersSyntax(PlainIds):
    """Values stand unquoted between tags; the tool's schema tells strings from numbers."""

    stop_literals = ()
    call_shape = "`<function=NAME>`, `<parameter=KEY>VALUE</parameter>` for each argument, then `</function>`"

    def __init__(
        self,
        name: str,
        opening: str,
        closing: str,
        *,
        markers: tuple[str, ...],
        thoughts: ThoughtMarks = THINK_TAGS,
        others: tuple[str, ...] = (),
    ) -> None:
        """`others`: what else is a control token of the family's."""
        self.name, self.markers, self.thought_marks = name, markers, thoughts
        self.control_literals = (opening, closing, thoughts.opening, *thoughts.closings, *others)
        self._opening, self._closing = opening, closing

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not one function with parameters cannot be read.

        Qwen3-Coder leaves out `<tool_call>` now and then, mostly behind what it says: a function of `tools` that begins
        a line and ends in the closing mark is a call, too, where it ends the turn.
        """
        return read_blocks(
            text,
            opening=self._opening,
            reader=lambda visible: _Blocks(visible, tools, self._opening, self._closing).read,
            is_thinking=is_thinking,
            unopened=_unopened(tools, self._closing) if "<function=" in text else None,
            marks=self.thought_marks,
        )


def _unopened(tools: Sequence[ToolSchema], closing: str) -> tuple[str, str] | None:
    """What stands around a function that lacks its opening mark."""
    names = "|".join(re.escape(tool.name) for tool in tools)
    return (rf"^[ \t]*(?=<function=(?:{names})>)", closing) if names else None


class _Blocks:
    def __init__(self, text: str, tools: Sequence[ToolSchema], opening: str, closing: str) -> None:
        self._text, self._tools, self._opening, self._closing = text, tools, opening, closing
        self._end = re.compile(rf"</function>\s*(?:{re.escape(closing)}|\Z)")
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
        return raw_block(self._text, start, self._opening, self._closing) if call is None else call

    def _parameter(self, position: int) -> Argument | None:
        opened = _PARAMETER.match(self._text, position)
        end = None if opened is None else self._ends.next(opened.end())
        if opened is None or end is None:
            return None
        return Argument(slice(*opened.span(1)), slice(opened.end(), end[0]), end[1])

    def _block_end(self, position: int) -> int | None:
        end = self._end.match(self._text, position)
        return None if end is None else end.end()


def _without_line_breaks(value: str) -> str:
    """Without the one that stands behind the opening tag and the one before the closing tag."""
    return value.removeprefix("\n").removesuffix("\n")


QWEN3_5 = XmlParametersSyntax(
    "qwen3_5",
    "<tool_call>",
    "</tool_call>",
    markers=("<function=",),
    others=("<tool_response>", "</tool_response>"),
)
SEED_OSS = XmlParametersSyntax(
    "seed_oss",
    "<seed:tool_call>",
    "</seed:tool_call>",
    markers=("<seed:tool_call>",),
    thoughts=ThoughtMarks("<seed:think>", ("</seed:think>",), "</seed:think>\n"),
    others=("<seed:bos>", "<seed:eos>", "<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>"),
)
