"""Text for regular expressions, as tool schemas hold them: ids, codes, dates. Pure and seeded."""

import importlib
import re
from collections.abc import Iterable
from random import Random
from typing import Any

_MAX_MORE = 4
"""Repetitions beyond the least, where a pattern allows many."""
_MAX_LEAST = 1_000
_PRINTABLE = "".join(chr(code) for code in range(32, 127))
_PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789"
_CLASSES = {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w", "NOT_WORD": r"\W"}
# The standard library's own reader of patterns; there is no public name for it.
_PARSER: Any = importlib.import_module("re._parser")


class UnsupportedPattern(Exception):
    """The pattern is none, or uses look-arounds, back references or conditions."""


def text_matching(pattern: str, rng: Random) -> str:
    """A text that fits the whole pattern. Raises UnsupportedPattern."""
    try:
        return _text(_PARSER.parse(pattern), rng)
    except (re.error, RecursionError, OverflowError):
        raise UnsupportedPattern(pattern) from None


def _text(nodes: Iterable[Any], rng: Random) -> str:
    """`nodes`: pairs of an operation and its operand, as the reader gives them."""
    return "".join(_piece(operation.name, operand, rng) for operation, operand in nodes)


def _piece(operation: str, operand: Any, rng: Random) -> str:
    match operation:
        case "LITERAL":
            return chr(operand)
        case "ANY":
            return rng.choice(_PLAIN)
        case "NOT_LITERAL":
            return rng.choice(_PRINTABLE.replace(chr(operand), ""))
        case "IN":
            return _one_of(operand, rng)
        case "AT":
            return ""
        case "BRANCH":
            return _text(rng.choice(operand[1]), rng)
        case "SUBPATTERN":
            return _text(operand[-1], rng)
        case "MAX_REPEAT" | "MIN_REPEAT" if operand[0] <= _MAX_LEAST:
            least, most, repeated = operand
            return "".join(_text(repeated, rng) for _ in range(rng.randint(least, min(most, least + _MAX_MORE))))
        case _:
            raise UnsupportedPattern(operation)


def _one_of(members: Iterable[Any], rng: Random) -> str:
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
    characters = "".join(sorted(set(_PRINTABLE) - set(chosen))) if is_negated else chosen
    if not characters:
        raise UnsupportedPattern("nothing fits")
    return rng.choice(characters)
