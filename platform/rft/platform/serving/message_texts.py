"""NUL in what is said, and in what tools have answered: as the model is shown it in training."""

from typing import Any, cast

from pydantic import BaseModel, model_validator

_TEXTS = ("content", "output", "text")
"""Fields of a message, an item or one of their parts that hold a text or parts."""


class SaidBody(BaseModel):
    """A request body in whose messages NUL becomes U+FFFD, as in the outputs of a rollout's tools."""

    @model_validator(mode="before")
    @classmethod
    def _replaces_nul(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        body = cast("dict[str, Any]", value)
        return body | {name: _without_nul(body[name]) for name in ("messages", "input") if name in body}


def _without_nul(said: Any, *, depth: int = 2) -> Any:
    """`depth`: of parts below it."""
    match said:
        case str():
            return said.replace("\x00", "\ufffd")
        case list() if depth:
            return [_texts_without_nul(entry, depth - 1) for entry in cast("list[Any]", said)]
        case _:
            return said


def _texts_without_nul(entry: Any, depth: int) -> Any:
    if not isinstance(entry, dict):
        return entry
    fields = cast("dict[str, Any]", entry)
    return fields | {name: _without_nul(fields[name], depth=depth) for name in _TEXTS if name in fields}
