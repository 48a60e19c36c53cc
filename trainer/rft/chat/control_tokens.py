"""Text is never control: what customers and models wrote reaches the model as text, whatever it spells.

A tokenizer turns literals such as `<|im_start|>` and `<tool_call>` into control tokens wherever they stand, in a tool's
output as well as in the template. So a conversation is rendered a second time with marks in place of all characters of
foreign text that literals are made of. The literals found there are the template's own. Where the two renderings agree
on them, the first one is encoded as a whole, to the very ids it always had; else only the template's literals become
control tokens, and all that stands between them is encoded as text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import cast

from pydantic import JsonValue

from rft.chat.errors import ChatTemplateError
from rft.core.base import JsonObject

_MARKS = (range(0xF0000, 0x10FFFE), range(0x40000, 0xE0000))
"""Private use, where no text has a meaning, and what nothing was ever assigned to."""
_JSON_ESCAPED = frozenset('"\\')
_WITH_FOREIGN_NAMES = frozenset({"arguments", "parameters"})
"""Below these, the names in an object are foreign text as well."""
_OUR_WORDS = frozenset({"role", "type"})
"""Fields whose words are ours: templates compare them, and some control tokens spell the same."""

Render = Callable[[Sequence[JsonObject], Sequence[JsonObject]], str]
"""Messages and tools to text."""
Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A literal that the tokenizer reads as one token."""

    literal: str
    token_id: int
    is_greedy_left: bool = False
    """It takes in white space before it."""
    is_greedy_right: bool = False

    @property
    def pattern(self) -> str:
        """What it takes in."""
        # A run of white space is tried from its beginning alone: from each of its places, it would cost its square.
        return r"(?:(?<!\s)\s+)?" * self.is_greedy_left + re.escape(self.literal) + r"\s*" * self.is_greedy_right


class ControlTokens:
    """All control tokens of a tokenizer. A literal of nothing but white space is text: some tokenizers have such."""

    def __init__(self, tokens: Iterable[ControlToken]) -> None:
        control = [token for token in tokens if token.literal.strip(" \t\r\n▁")]
        self._ids = {token.literal: token.token_id for token in control}
        longest_first = sorted(control, key=lambda token: len(token.literal), reverse=True)
        self._control_ids = frozenset(self._ids.values())
        self._pattern = re.compile("|".join(token.pattern for token in longest_first) or r"(?!)")
        characters = sorted({character for literal in self._ids for character in literal} - _JSON_ESCAPED)
        self._letters = [character for character in characters if character.isalnum()]
        self._others = [c for c in characters if not c.isalnum() and not c.isspace()]
        self._cores = frozenset("".join(c for c in literal if c.isalnum()) for literal in self._ids)

    def found_in(self, text: str) -> bool:
        """Whether the text spells a control token."""
        return self._pattern.search(text) is not None

    def among(self, token_ids: Sequence[int]) -> list[int]:
        """Those of the ids that are control tokens."""
        return [token for token in token_ids if token in self._control_ids]

    def encode(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        *,
        render: Render,
        encode: Encode,
        encode_text: Encode,
        encode_after_control: Encode | None = None,
        own_messages: int = 0,
    ) -> list[int]:
        """A conversation as token ids. `encode` reads literals as control tokens, `encode_text` reads none.

        `encode_after_control` encodes text behind a control token, where a tokenizer does not do so as at the start.
        The first `own_messages` are ours but for their tool calls: literals in them are control tokens, as in the
        template.
        """
        text = render(messages, tools)
        marks = self._marks(text)
        ours = [marks.calls_of(message) for message in messages[:own_messages]]
        foreign = [marks.message(message) for message in messages[own_messages:]]
        marked = render([*ours, *foreign], [marks.message(tool) for tool in tools])
        expected = [self._id_of(found[0]) for found in self._pattern.finditer(marked)]
        if self._is_template_alone(text, marked, marks):
            ids = encode(text)
            if self.among(ids) == expected:  # A normalizer may make a literal of what was none.
                return ids
        ids = []
        between = encode_after_control or encode_text
        for number, piece in enumerate(self._pieces(marked)):
            encode_piece = between if number else encode_text
            ids.extend([piece] if isinstance(piece, int) else encode_piece(marks.taken_off(piece)))
        return ids

    def _is_template_alone(self, text: str, marked: str, marks: "_Marks") -> bool:
        """Whether all literals in the text are the template's.

        A template that sorts or measures foreign text renders marked text otherwise; then the literals are compared
        without their places.
        """
        if marks.taken_off(marked) == text:
            return self._spans(marked) == self._spans(text)
        return [found[0] for found in self._pattern.finditer(marked)] == [
            found[0] for found in self._pattern.finditer(text)
        ]

    def _marks(self, text: str) -> "_Marks":
        """Marks that do not occur in the text, nor in anything it was made of. Raises ChatTemplateError."""
        taken, marked = set(text), [*self._others, *self._letters]
        free = list(islice((mark for mark in chain(*_MARKS) if chr(mark) not in taken), len(marked)))
        if len(free) < len(marked):
            raise ChatTemplateError(
                "a conversation holds almost all characters there are: none is left to mark it with"
            )
        marks = {ord(character): mark for character, mark in zip(marked, free, strict=True)}
        others = {ord(character): marks[ord(character)] for character in self._others}
        return _Marks(others, marks, self._cores)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in self._pattern.finditer(text)]

    def _pieces(self, text: str) -> Iterator[str | int]:
        """Text between control tokens, and the ids of those."""
        end = 0
        for found in self._pattern.finditer(text):
            if found.start() > end:
                yield text[end : found.start()]
            yield self._id_of(found[0])
            end = found.end()
        if end < len(text):
            yield text[end:]

    def _id_of(self, found: str) -> int:
        return self._ids[found] if found in self._ids else self._ids[found.strip()]


@dataclass(frozen=True, slots=True)
class _Marks:
    """Code points that stand for the characters of literals. Letters are marked only where a whole text spells the
    inside of a literal: templates compare words, such as the names of types."""

    of_others: Mapping[int, int]
    of_all: Mapping[int, int]
    cores: frozenset[str]

    def message(self, message: JsonObject) -> JsonObject:
        """A message or a tool with its foreign texts marked; the names of its own fields stay."""
        return cast(JsonObject, self._value(message, has_foreign_names=False))

    def calls_of(self, message: JsonObject) -> JsonObject:
        """A message of ours with the tool calls in it marked: what a model calls is its own text."""
        calls = message.get("tool_calls")
        return message if calls is None else {**message, "tool_calls": self._value(calls, has_foreign_names=False)}

    def taken_off(self, text: str) -> str:
        """The text without marks."""
        return text.translate({mark: character for character, mark in self.of_all.items()})

    def _value(self, value: JsonValue, *, has_foreign_names: bool) -> JsonValue:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._value(item, has_foreign_names=has_foreign_names) for item in value]
        if isinstance(value, dict):
            return {
                self._text(name) if has_foreign_names else name: item
                if name in _OUR_WORDS and not has_foreign_names
                else self._value(item, has_foreign_names=has_foreign_names or name in _WITH_FOREIGN_NAMES)
                for name, item in value.items()
            }
        return value

    def _text(self, text: str) -> str:
        return text.translate(self.of_all if text.strip() in self.cores else self.of_others)
