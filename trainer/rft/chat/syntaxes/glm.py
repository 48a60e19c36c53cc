"""GLM 4.5 and later: `<tool_call>NAME`, then `<arg_key>`, `<arg_value>` in pairs, then `</tool_call>`."""

import re
from collections.abc import Sequence

from rft.chat.argument_types import ArgumentTypes, object_text
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn
from rft.chat.syntaxes.blocks import read_blocks
from rft.chat.syntaxes.hermes import raw_block
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, THINK_TAGS
from rft.core.messages import ToolSchema

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_NAME = re.compile(r"\s*([^\s<>]+)\s*")
_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)


class GlmSyntax(PlainIds):
    """Values stand unquoted between tags; a turn has no end of its own, the next speaker's mark ends it."""

    name = "glm"
    markers = ("<arg_key>",)
    control_literals = (
        *(_OPEN, _CLOSE, "<tool_response>", "</tool_response>", THINK_OPEN, THINK_CLOSE),
        *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    )
    stop_literals = ("<|observation|>", "<|user|>")
    thought_marks = THINK_TAGS
    call_shape = "the tool's name, then `<arg_key>KEY</arg_key>` and `<arg_value>VALUE</arg_value>` for each argument"

    def read(self, text: str, tools: Sequence[ToolSchema]) -> WrittenTurn:
        """A block that is not a name and pairs of tags cannot be read."""
        return read_blocks(text, tools, opening=_OPEN, read_block=_read_block)


def _read_block(text: str, start: int, tools: Sequence[ToolSchema]) -> tuple[WrittenCall, int]:
    name = _NAME.match(text, start)
    if name is None or not name[1].isprintable():
        return raw_block(text, start, _OPEN, _CLOSE)
    types, arguments, position = ArgumentTypes(tools, name[1]), dict[str, str](), name.end()
    while (pair := _PAIR.match(text, position)) is not None:
        arguments[pair[1].strip()] = types.to_json(pair[1].strip(), pair[2])
        position = pair.end()
    if position == len(text):
        return WrittenCall(name[1], object_text(arguments)), position
    if text.startswith(_CLOSE, position):
        return WrittenCall(name[1], object_text(arguments)), position + len(_CLOSE)
    return raw_block(text, start, _OPEN, _CLOSE)
