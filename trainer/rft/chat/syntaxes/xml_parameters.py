"""Qwen3.5 to 3.8, Nemotron 3: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`."""

import re
from collections.abc import Sequence

from rft.chat.argument_types import ArgumentTypes, object_text
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn
from rft.chat.syntaxes.blocks import read_blocks
from rft.chat.syntaxes.hermes import raw_block
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, THINK_TAGS
from rft.core.messages import ToolSchema

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^\n>\x00]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^\n>]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_END = re.compile(r"</function>\s*(?:</tool_call>|\Z)")


class XmlParametersSyntax(PlainIds):
    """Values stand unquoted between tags; the tool's schema tells strings from numbers."""

    name = "qwen3_5"
    markers = ("<function=",)
    control_literals = (_OPEN, _CLOSE, "<tool_response>", "</tool_response>", THINK_OPEN, THINK_CLOSE)
    stop_literals = ()
    thought_marks = THINK_TAGS
    call_shape = "`<function=NAME>`, `<parameter=KEY>VALUE</parameter>` for each argument, then `</function>`"

    def read(self, text: str, tools: Sequence[ToolSchema]) -> WrittenTurn:
        """A block that is not one function with parameters cannot be read."""
        return read_blocks(text, tools, opening=_OPEN, read_block=_read_block)


def _read_block(text: str, start: int, tools: Sequence[ToolSchema]) -> tuple[WrittenCall, int]:
    function = _FUNCTION.match(text, start)
    if function is None or not function[1].strip():
        return raw_block(text, start, _OPEN, _CLOSE)
    name = function[1].strip()
    types, arguments, position = ArgumentTypes(tools, name), dict[str, str](), function.end()
    while (parameter := _PARAMETER.match(text, position)) is not None:
        arguments[parameter[1].strip()] = types.to_json(parameter[1].strip(), parameter[2])
        position = parameter.end()
    end = _END.match(text, position)
    if end is None or not name.isprintable():
        return raw_block(text, start, _OPEN, _CLOSE)
    return WrittenCall(name, object_text(arguments)), end.end()
