"""Base of request bodies, and constraints that say in words what they want."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

MAX_DEPTH = 100
"""Lists and objects inside one another in a body: what is deeper could be neither stored nor shown."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _to_unix(at: Any) -> Any:
    return int(at.timestamp()) if isinstance(at, datetime) else at


UnixTime: TypeAlias = Annotated[int, BeforeValidator(_to_unix)]
"""Whole seconds, also of a row's time."""


def proper_json(value: Any) -> Any:
    """The value, if it is not nested too deeply and holds only numbers that JSON has: our parser takes `NaN`, too."""
    is_finite = True
    for part, depth in _parts(value):
        if depth > MAX_DEPTH:
            raise PydanticCustomError("invalid_value", "is nested more than {depth} levels deep", {"depth": MAX_DEPTH})
        is_finite = is_finite and not _is_infinite(part)
    if not is_finite:
        raise refused_at(_place_of_infinite(value) or (), "must be a number that JSON has, not NaN or Infinity")
    return value


class OpenBody(BaseModel):
    """A request body, or a part of it. Fields we do not know are kept and echoed."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _is_proper_json(cls, value: Any) -> Any:
        return proper_json(value)


class TextBody(OpenBody):
    """A request body whose every text can be stored and sent back."""

    @model_validator(mode="before")
    @classmethod
    def _holds_only_text(cls, value: Any) -> Any:
        if not holds_only_text(value):
            raise PydanticCustomError(
                "invalid_value", "contains a NUL or half a surrogate pair, which cannot be stored"
            )
        return value


def must_be(constraint: str) -> WrapValidator:
    """One sentence in place of pydantic's, whatever part of the constraint was broken: `must be <constraint>`."""

    def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return inner(value)
        except ValidationError as error:
            raise PydanticCustomError("invalid_value", "must be {constraint}", {"constraint": constraint}) from error

    return WrapValidator(check)


def refuse_unless(problem: Callable[[str], str | None]) -> Callable[[str], str]:
    """A validator from a function that names a problem."""

    def check(value: str) -> str:
        found = problem(value)
        if found is not None:
            raise PydanticCustomError("invalid_value", "{found}", {"found": found})
        return value

    return check


def holds_only_text(value: Any) -> bool:
    """Whether every string can be written as UTF-8 and stored."""
    return not any(isinstance(part, str) and ("\x00" in part or _SURROGATE.search(part)) for part, _ in _parts(value))


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _place_of_infinite(value: Any) -> tuple[int | str, ...] | None:
    """Where in a document of bearable depth the first number lies that is none."""
    inner: Iterable[tuple[int | str, Any]]
    match value:
        case dict():
            inner = value.items()
        case list():
            inner = enumerate(value)
        case _:
            return () if _is_infinite(value) else None
    places = ((key, _place_of_infinite(entry)) for key, entry in inner)
    return next(((key, *place) for key, place in places if place is not None), None)


def refused_at(place: tuple[int | str, ...], message: str) -> Exception:
    """An error that carries its own place below the field."""
    error = PydanticCustomError("invalid_value", "{message}", {"message": message})
    return (
        ValidationError.from_exception_data("body", [{"type": error, "loc": place, "input": None}]) if place else error
    )


def _parts(value: Any) -> Iterator[tuple[Any, int]]:
    """Every name and value of a document, with its depth. Without recursion: it may be deeper than the stack."""
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        yield part, depth
        match part:
            case dict():
                waiting.extend((inner, depth + 1) for pair in part.items() for inner in pair)
            case list():
                waiting.extend((inner, depth + 1) for inner in part)
            case _:
                pass


PositiveSeconds: TypeAlias = Annotated[
    Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False, strict=True)],
    must_be("a number of seconds above 0, 3600 at most"),
]
