"""Marks that a model spells out as text open and close nothing: only control tokens do.

A tool's reply that spells `<tool_call>` reaches the model as text (`rft.chat.control_tokens`). A model that quotes the
reply samples the same tokens, and makes no call by it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from rft.chat.syntax import WrittenCall, WrittenTurn
from rft.chat.tokenizer import Tokenizer

_MARKS = (range(0xF0000, 0x10FFFE), range(0x40000, 0xE0000))
"""Private use, where no text has a meaning, and what nothing was ever assigned to."""


@dataclass(frozen=True, slots=True)
class ReadableText:
    """A turn's text for a reader of marks, as long as the turn's own."""

    text: str
    hidden: Mapping[int, str] = field(default_factory=dict[int, str])
    """What stands in place of the first characters of marks that are spelled, and those."""

    def shown(self, turn: WrittenTurn) -> WrittenTurn:
        """What was read of it, in the turn's own characters."""
        if not self.hidden:
            return turn
        return WrittenTurn(
            self._shown(turn.content), tuple(map(self._shown_call, turn.calls)), self._shown(turn.reasoning)
        )

    def _shown_call(self, call: WrittenCall) -> WrittenCall:
        call_id = None if call.call_id is None else self._shown(call.call_id)
        return replace(call, name=self._shown(call.name), arguments=self._shown(call.arguments), call_id=call_id)

    def _shown(self, text: str) -> str:
        return text.translate(self.hidden)


class SpelledMarks:
    """Tells a tokenizer's control tokens from text that spells them, where a literal is one token at all."""

    def __init__(self, tokenizer: Tokenizer, literals: Iterable[str]) -> None:
        self._decode: Callable[[Sequence[int]], str] = tokenizer.decode
        encoded = {literal: tokenizer.encode(literal) for literal in literals}
        single = {literal: ids[0] for literal, ids in encoded.items() if len(ids) == 1}
        self._ids = frozenset(single.values())
        longest_first = sorted(single, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def hide(self, text: str, token_ids: Sequence[int]) -> ReadableText:
        """`text`: that of the tokens, character for character."""
        found = [mark.start() for mark in self._pattern.finditer(text)]
        if len(found) == sum(token in self._ids for token in token_ids):
            return ReadableText(text)
        is_token = list(self._are_tokens(token_ids))
        if len(is_token) != len(found):  # A tokenizer whose decoder joins what stands on both sides of a control token.
            return ReadableText(text)
        places = [place for place, is_one in zip(found, is_token, strict=True) if not is_one]
        characters = {text[place] for place in places}
        taken = set(text)
        free = (mark for mark in chain(*_MARKS) if chr(mark) not in taken)
        marks = {character: mark for character, mark in zip(sorted(characters), free, strict=False)}
        letters = list(text)
        for place in places:
            letters[place] = chr(marks[text[place]])
        return ReadableText("".join(letters), {mark: character for character, mark in marks.items()})

    def _are_tokens(self, token_ids: Sequence[int]) -> Iterator[bool]:
        """Of each mark in their text, in order."""
        for is_control, run in groupby(token_ids, self._ids.__contains__):
            tokens = list(run)
            if is_control:
                yield from (True for _ in tokens)
            else:
                yield from (False for _ in self._pattern.finditer(self._decode(tokens)))
