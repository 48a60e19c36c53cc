"""Text for regular expressions, as tool schemas hold them: ids, codes, dates. Pure and seeded."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from rft.core.pattern_syntax import parse_pattern

_MAX_MORE = 4
"""Repetitions beyond the least, where a pattern allows many."""
_MAX_LEAST = 1_000
_CHEAP_CHARS = 100
"""So many characters of a class cost no more than one step."""
_PRINTABLE = "".join(chr(code) for code in range(32, 127))
_PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789"
_CLASSES = {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w", "NOT_WORD": r"\W"}


class UnsupportedPattern(Exception):
    """The pattern is none, or uses look-arounds, back references or conditions."""


class TooMuch(Exception):
    """More steps would be taken than there are."""


@dataclass(slots=True)
class Steps:
    """How many steps may still be taken: patterns and schemas of a few lines can ask for more than a lifetime's."""

    left: int

    def take(self, steps: int = 1) -> None:
        """Raises TooMuch."""
        self.left -= steps
        if self.left < 0:
            raise TooMuch


def text_matching(pattern: str, rng: Random, steps: Steps) -> str:
    """A text that fits the whole pattern. Raises UnsupportedPattern and TooMuch."""
    try:
        return _Writer(rng, steps).text(parse_pattern(pattern))
    except (re.error, RecursionError, OverflowError, ValueError):
        raise UnsupportedPattern(pattern) from None


@dataclass(frozen=True, slots=True)
class _Writer:
    rng: Random
    steps: Steps

    def text(self, nodes: Iterable[Any]) -> str:
        """`nodes`: pairs of an operation and its operand, as the reader gives them."""
        return "".join(self._piece(operation.name, operand) for operation, operand in nodes)

    def _piece(self, operation: str, operand: Any) -> str:
        self.steps.take()
        match operation:
            case "LITERAL":
                return chr(operand)
            case "ANY":
                return self.rng.choice(_PLAIN)
            case "NOT_LITERAL":
                return self.rng.choice(_PRINTABLE.replace(chr(operand), ""))
            case "IN":
                return self._one_of(operand)
            case "AT":
                return ""
            case "BRANCH":
                return self.text(self.rng.choice(operand[1]))
            case "SUBPATTERN":
                return self.text(operand[-1])
            case "MAX_REPEAT" | "MIN_REPEAT" if operand[0] <= _MAX_LEAST:
                return self._repeated(*operand)
            case _:
                raise UnsupportedPattern(operation)

    def _repeated(self, least: int, most: int, nodes: Iterable[Any]) -> str:
        times = self.rng.randint(least, min(most, least + _MAX_MORE))
        self.steps.take(times)  # What is repeated may be nothing.
        return "".join(self.text(nodes) for _ in range(times))

    def _one_of(self, members: Iterable[Any]) -> str:
        chosen, is_negated = "", False
        for operation, operand in members:
            match operation.name:
                case "NEGATE":
                    is_negated = True
                case "LITERAL":
                    chosen += chr(operand)
                case "RANGE":
                    chosen += "".join(chr(code) for code in range(operand[0], min(operand[1], operand[0] + 1_000) + 1))
                case _:
                    chosen += "".join(re.findall(_CLASSES[operand.name.removeprefix("CATEGORY_")], _PRINTABLE))
        self.steps.take(len(chosen) // _CHEAP_CHARS)
        characters = "".join(sorted(set(_PRINTABLE) - set(chosen))) if is_negated else chosen
        if not characters:
            raise UnsupportedPattern("nothing fits")
        return self.rng.choice(characters)
