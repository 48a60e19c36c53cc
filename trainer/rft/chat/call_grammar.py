"""How a chat template writes a call, as rules for a sample that has to be one."""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rft.chat.closed_schema import closed
from rft.chat.dummies import STYLES
from rft.chat.errors import ChatTemplateError
from rft.chat.probe import native_turn
from rft.chat.template_format import TemplateChatFormat
from rft.chat.token_places import TokenPlaces
from rft.core.base import JsonObject
from rft.core.messages import ToolCall, ToolSchema

_NAME = "zqname"
_ARGUMENTS: JsonObject = {"zqkey": "zqvalue"}
"""Both stand for what a call says; templates write neither themselves."""
_SEPARATORS = ((", ", ": "), (",", ":"))
"""Between the members of an object, and within one, as templates write them."""

Piece = str | int
"""Text, or a control token."""


@dataclass(frozen=True, slots=True)
class CallShape:
    """What a template writes around the name and the arguments of a turn's only call."""

    space: str
    """Line breaks that may stand in front of it."""
    before_name: tuple[Piece, ...]
    behind_name: tuple[Piece, ...]
    behind_arguments: tuple[Piece, ...] | None
    """None: arguments are no JSON, and `behind_name` is what all of them begin with."""
    separators: tuple[str, str] = _SEPARATORS[0]
    """Of arguments that are JSON."""

    @property
    def is_whole(self) -> bool:
        """Whether its rules are of a whole call; else its arguments are to follow as the policy writes them."""
        return self.behind_arguments is not None

    def rules(self, tools: Sequence[ToolSchema], *, lenient: Collection[str] = ()) -> str:
        """Of a call of one of these, in llguidance's dialect of Lark.

        `lenient`: names of tools of whose schemas that is left out which no sample can be held to.
        """
        start = " | ".join(f"call{number}" for number in range(len(tools)))
        space = f"({_in_rules([self.space])[0]})? " if self.space else ""
        calls = [self._rule(number, tool, is_lenient=tool.name in lenient) for number, tool in enumerate(tools)]
        return "\n".join([f"start: {space}({start})", *calls])

    def _rule(self, number: int, tool: ToolSchema, *, is_lenient: bool) -> str:
        parts = _in_rules((*self.before_name, tool.name, *self.behind_name))
        if self.behind_arguments is not None:
            items, keys = self.separators
            style: JsonObject = {"whitespace_flexible": False, "item_separator": items, "key_separator": keys}
            style["lenient"] = is_lenient
            schema: JsonObject = {"type": "object", **closed(tool.parameters), "x-guidance": style}
            parts += [f"%json {json.dumps(schema)}", *_in_rules(self.behind_arguments)]
        return f"call{number}: {' '.join(parts)}"


def call_shape(
    chat_format: TemplateChatFormat, tools: Sequence[ToolSchema], *, call_id: str, is_behind_thought: bool
) -> CallShape:
    """As the template writes it behind the closing mark of a thought, or in a turn without thoughts.

    Raises ChatTemplateError where that is not to be seen.
    """
    written = None
    if is_behind_thought:
        written = next((one for one in _with_thoughts(chat_format, tools, call_id) if one.has_thought), None)
    written = written or _written_turn(chat_format, tools, call_id, chat_format.style)
    return _shape(_pieces(chat_format, written.call), _pieces(chat_format, written.opening))


@dataclass(frozen=True, slots=True)
class _WrittenTurn:
    """A turn of one call."""

    has_thought: bool
    call: list[int]
    """What stands behind its thought."""
    opening: list[int]
    """What of that does not depend on the arguments."""


def _with_thoughts(
    chat_format: TemplateChatFormat, tools: Sequence[ToolSchema], call_id: str
) -> Iterator[_WrittenTurn]:
    for style in reversed(STYLES):
        with suppress(ChatTemplateError):  # Not every template takes each.
            yield _written_turn(chat_format, tools, call_id, style)


def _written_turn(
    chat_format: TemplateChatFormat, tools: Sequence[ToolSchema], call_id: str, style: JsonObject
) -> _WrittenTurn:
    turn, other = (
        native_turn(chat_format, [_call(call_id, arguments)], tools=tools, style=style)
        for arguments in (_ARGUMENTS, {})
    )
    start, has_thought = _start(chat_format, turn)
    shared = next((n for n, (a, b) in enumerate(zip(turn, other, strict=False)) if a != b), 0)
    return _WrittenTurn(has_thought, turn[start:], turn[start:shared])


def _call(call_id: str, arguments: JsonObject) -> ToolCall:
    return ToolCall(call_id=call_id, name=_NAME, arguments=json.dumps(arguments))


def _start(chat_format: TemplateChatFormat, turn: Sequence[int]) -> tuple[int, bool]:
    """The place behind the turn's thought, and whether it has one."""
    marks, text = chat_format.syntax.thought_marks, chat_format.tokenizer.decode(turn)
    name = text.find(_NAME)
    closings = () if marks is None else marks.closings
    ends = [text.find(closing, 0, name) + len(closing) for closing in closings if text.find(closing, 0, name) >= 0]
    if not ends:
        return 0, False
    return TokenPlaces(turn, chat_format.tokenizer.decode).tokens_to(min(ends)), True


def _pieces(chat_format: TemplateChatFormat, token_ids: Sequence[int]) -> list[Piece]:
    """The text between control tokens in one piece each."""
    pieces, text, tokenizer = list[Piece](), b"", chat_format.tokenizer
    for token in token_ids:
        if token not in tokenizer.control_ids:
            text += tokenizer.token_bytes(token)
            continue
        pieces += [*filter(None, [text.decode(errors="replace")]), token]
        text = b""
    return [*pieces, *filter(None, [text.decode(errors="replace")])]


def _shape(pieces: Sequence[Piece], opening: Sequence[Piece]) -> CallShape:
    """`opening`: what of the pieces does not depend on the arguments."""
    space = ""
    if pieces and isinstance(pieces[0], str):
        space = pieces[0][: len(pieces[0]) - len(pieces[0].lstrip("\n"))]
        pieces, opening = _without(space, pieces), _without(space, opening)
    before_name, behind_name = _parted(pieces, _NAME)
    for separators in _SEPARATORS:
        arguments = json.dumps(_ARGUMENTS, separators=separators)
        if any(isinstance(piece, str) and arguments in piece for piece in behind_name):
            behind_name, behind_arguments = _parted(behind_name, arguments)
            return CallShape(space, before_name, behind_name, behind_arguments, separators)
    # One character at least: no name is the beginning of another then.
    return CallShape(space, before_name, _parted(opening, _NAME)[1] or _first(behind_name), None)


def _first(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(piece[0] if isinstance(piece, str) else piece for piece in pieces[:1])


def _parted(pieces: Sequence[Piece], text: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """What stands before a text, and what behind it. Raises ChatTemplateError."""
    for place, piece in enumerate(pieces):
        if isinstance(piece, str) and text in piece:
            before, _, behind = piece.partition(text)
            return (*pieces[:place], *filter(None, [before])), (*filter(None, [behind]), *pieces[place + 1 :])
    raise ChatTemplateError("the chat template writes the name of a call in a way that no sample can be held to")


def _without(space: str, pieces: Sequence[Piece]) -> list[Piece]:
    first = pieces[0].removeprefix(space) if isinstance(pieces[0], str) else pieces[0]
    return [*filter(None, [first]), *pieces[1:]]


def _in_rules(pieces: Sequence[Piece]) -> list[str]:
    """As rules have them."""
    return [f"<[{piece}]>" if isinstance(piece, int) else json.dumps(piece, ensure_ascii=False) for piece in pieces]
