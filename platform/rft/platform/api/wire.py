"""Base of request bodies, and constraints that say in words what they want."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeAlias, cast

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
MAX_VALUES = 1_000_000
"""Names and values in a body: each is looked at on the event loop. Twice what fits into a row of a dataset."""
MAX_ORDER_VALUES = 100_000
"""In an order of a job, a grader, a tool or an eval, which is redacted, compared, stored and shown value by value."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _to_unix(at: Any) -> Any:
    return int(at.timestamp()) if isinstance(at, datetime) else at


UnixTime: TypeAlias = Annotated[int, BeforeValidator(_to_unix)]
"""Whole seconds, also of a row's time."""


def proper_json(value: Any, *, most_values: int = MAX_VALUES) -> Any:
    """The value, if it is neither nested too deeply nor of too many parts, and holds only numbers that JSON has: our
    parser takes `NaN`, too."""
    is_finite, seen = True, 0
    for depth, level in enumerate(_levels(value)):
        if depth > MAX_DEPTH:
            raise PydanticCustomError("invalid_value", "is nested more than {depth} levels deep", {"depth": MAX_DEPTH})
        seen += len(level)
        if seen > most_values:
            message = "has more than {most} names and values"
            raise PydanticCustomError("invalid_value", message, {"most": f"{most_values:,}"})
        is_finite = is_finite and not any(_is_infinite(part) for part in level)
    if not is_finite:
        raise refused_at(_place_of_infinite(value) or (), "must be a number that JSON has, not NaN or Infinity")
    return value


class OpenBody(BaseModel):
    """A request body, or a part of it. Fields we do not know are kept and echoed."""

    model_config = ConfigDict(extra="allow", frozen=True)
    most_values: ClassVar[int] = MAX_VALUES

    @model_validator(mode="before")
    @classmethod
    def _is_proper_json(cls, value: Any) -> Any:
        return proper_json(value, most_values=cls.most_values)


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
    return not any(
        isinstance(part, str) and ("\x00" in part or _SURROGATE.search(part))
        for level in _levels(value)
        for part in level
    )


def text_chars(value: Any) -> int:
    """Characters of all names and texts of a document together."""
    return sum(len(part) for level in _levels(value) for part in level if isinstance(part, str))


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


def _levels(value: Any) -> Iterator[list[Any]]:
    """Every name and value of a document, by depth. Without recursion: it may be deeper than the stack."""
    level = [value]
    while level:
        yield level
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                entries = cast("dict[str, Any]", part)
                inner += entries
                inner += entries.values()
            elif isinstance(part, list):
                inner += part
        level = inner


PositiveSeconds: TypeAlias = Annotated[
    Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False, strict=True)],
    must_be("a number of seconds above 0, 3600 at most"),
]
