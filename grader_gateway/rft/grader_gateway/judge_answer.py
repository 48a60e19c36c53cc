"""Reads the verdict out of what a judge model wrote, or says that there is none that is surely its own. Pure."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.grader_gateway.second_verdicts import PossibleVerdicts, is_another_label, is_another_number

UNREADABLE = "model_grader_parse_error"
"""`Failure.detail` of an answer that holds no verdict: a name of the contract."""
_SHOWN_CHARS = 120
_READ_CHARS = 100_000
_MOST_BRACES = 500
"""At either end of an answer: an object may begin at each, and one that is none takes its time to be read."""
_MARKS = " \t\r\n`*"
"""What stands between a word and the object that it introduces, with the language of a fence."""
_FENCE_LANGUAGE = "json"
_ANY = PossibleVerdicts()
_GAP = ";\n"
"""In place of an object: no value goes on behind it."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a judge's answer holds no verdict, as the end of a sentence that begins with the judge."""

    message: str
    detail: str = UNREADABLE


@dataclass(frozen=True, slots=True)
class _Found:
    """An outermost object, and where it stands."""

    value: JsonObject
    begin: int
    end: int


def field_of_answer(text: str, key: str, possible: PossibleVerdicts = _ANY) -> JsonValue | Unreadable:
    """The named field of the last object that has it; the whole answer where it holds no object; else None.

    Where the key stands once more with another value, in whatever spelling, and that is no JSON, nobody knows which
    verdict is the judge's: the object may be a quotation of what is judged.
    """
    objects = list(_objects_in(text))
    if not objects:
        return text.strip()
    place = max((place for place, found in enumerate(objects) if key in found.value), default=None)
    if place is None:
        return None
    chosen = objects[place]
    value, behind = chosen.value[key], text[chosen.end :]
    if f'"{key}"' in behind or _names_another(_spelled(key), value, behind, possible):
        return Unreadable(f"gave a last {key} that cannot be read: {show(behind.strip())}")
    before = _between(text, objects[: place + 1])
    if _has_another_before(key, value, before, possible, is_last=not any(map(str.isalnum, behind))):
        return Unreadable(f"gave another {key} before its last: {show(before.strip())}")
    return value


def _has_another_before(key: str, value: JsonValue, before: str, possible: PossibleVerdicts, *, is_last: bool) -> bool:
    """In what looks like an object; of words only where more follow, as judges weigh results before a last object."""
    told = before.rstrip(_MARKS)
    if told.casefold().endswith(_FENCE_LANGUAGE):
        told = told[: -len(_FENCE_LANGUAGE)].rstrip(_MARKS)
    brace = told.find("{")
    in_braces = rf"[{{,]\s*['\"`]?{re.escape(key)}['\"`]?\s*:"
    if brace >= 0 and _names_another(in_braces, value, told[brace:], possible):
        return True
    return not is_last and _names_another(_spelled(key), value, told, possible)


def _spelled(key: str) -> str:
    """The key in JSON, in Python, in Markdown, in words."""
    return rf"\b{re.escape(key)}\b['\"`*]*\s*[:=]"


def _names_another(naming: str, value: JsonValue, text: str, possible: PossibleVerdicts) -> bool:
    """Whether a pattern of a key is followed by what is not this value."""
    found = re.finditer(rf"{naming}[\s'\"`*]*(?=[^\n])", text, re.IGNORECASE)
    return any(_is_another(text, match.end(), value, possible) for match in found)


def _is_another(text: str, at: int, value: JsonValue, possible: PossibleVerdicts) -> bool:
    """A number beside a number, an object beside an object; beside a text any other."""
    if isinstance(value, list | dict):
        return text.startswith(("{", "["), at)
    number = as_number(value)
    if number is not None:
        return is_another_number(text, at, number, possible.highest)
    return is_another_label(text, at, str(value).strip(), possible.labels)


def _between(text: str, objects: Sequence[_Found]) -> str:
    """What stands before the last of them and in none of them."""
    begins = [max(0, len(text) - _READ_CHARS), *(found.end for found in objects)]
    return _GAP.join(text[begin : found.begin] for begin, found in zip(begins, objects, strict=False))


def _objects_in(text: str) -> Iterator[_Found]:
    """Every outermost JSON object: models wrap their answer in words, fences and thoughts."""
    cut = max(0, len(text) - _READ_CHARS)
    text, end = text[cut:], 0
    decoder = json.JSONDecoder(strict=False)  # Models break lines within strings.
    begun = [position for position, character in enumerate(text) if character == "{"]
    if len(begun) > 2 * _MOST_BRACES:
        begun = begun[:_MOST_BRACES] + begun[-_MOST_BRACES:]  # Verdicts stand at the end, thoughts full of code before.
    for position in begun:
        if position < end:
            continue
        try:
            found, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            continue
        yield _Found(cast("JsonObject", found), cut + position, cut + end)


def as_number(value: JsonValue) -> float | None:
    """A finite number, also one that is written as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def show(value: JsonValue) -> str:
    """A value for a message, cut."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
