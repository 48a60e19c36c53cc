"""What of a dataset row calls and answers can be made of. Pure."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from random import Random
from typing import TypeAlias

from pydantic import JsonValue

from rft.core.dataset import DatasetRow
from rft.core.messages import Role

Fields: TypeAlias = dict[str, str | float | bool]
_WORD = re.compile(r"[^\W_][\w'-]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MOST_WORDS = 400
_ANSWER_FIELDS = (
    "answer", "reference_answer", "reference", "expected_answer", "expected", "expected_output", "target",
    "ground_truth", "solution", "label", "output",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Material:
    """What of a row arguments are made of."""

    words: tuple[str, ...]
    """Of the last user message, or of the row's other texts where that has none."""
    numbers: tuple[float, ...]
    fields: Fields
    """Single values by their name in lower case, however deep they lie."""

    @classmethod
    def of(cls, row: DatasetRow) -> "Material":
        """The row's own."""
        fields: Fields = {}
        texts = list(
            _texts({key: value for key, value in row.item.items() if key not in ("messages", "tools")}, fields)
        )
        question = next((message.content for message in reversed(row.messages) if message.role is Role.USER), "")
        words = _WORD.findall(question) or _WORD.findall(" ".join(texts)) or ["example"]
        numbers = [float(number) for number in _NUMBER.findall(question)]
        numbers += [value for value in fields.values() if isinstance(value, float)]
        numbers = [number for number in numbers if isfinite(number)]
        return cls(tuple(words[:_MOST_WORDS]), tuple(numbers), fields)


def answer_of(row: DatasetRow, material: Material, rng: Random) -> str:
    """What a model might answer: the row's reference answer where it has one, otherwise one of its words."""
    for name in _ANSWER_FIELDS:
        value = row.item.get(name)
        if value is not None:
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return rng.choice(material.words)


def _texts(value: JsonValue, fields: Fields, name: str = "") -> Iterator[str]:
    """All texts inside; single values are collected into `fields` on the way, the first of a name wins."""
    if name and isinstance(value, str | bool | int | float) and value != "":
        fields.setdefault(name, value if isinstance(value, str | bool) else _float(value))
    match value:
        case str():
            yield value
        case dict():
            for key, entry in value.items():
                yield from _texts(entry, fields, key.lower())
        case list():
            for entry in value:
                yield from _texts(entry, fields)
        case _:
            return


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf
