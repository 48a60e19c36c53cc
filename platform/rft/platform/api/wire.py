"""Base of request bodies, and constraints that say in words what they want."""

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

_SURROGATE = re.compile(r"[\ud800-\udfff]")


class OpenBody(BaseModel):
    """A request body, or a part of it. Fields we do not know are kept and echoed."""

    model_config = ConfigDict(extra="allow", frozen=True)


def must_be(words: str) -> WrapValidator:
    """One sentence in place of pydantic's, whatever part of the constraint was broken: `must be <words>`."""

    def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return inner(value)
        except ValidationError as error:
            raise PydanticCustomError("invalid_value", "must be {words}", {"words": words}) from error

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
    match value:
        case str():
            return "\x00" not in value and not _SURROGATE.search(value)
        case dict():
            return all(holds_only_text(key) and holds_only_text(entry) for key, entry in value.items())
        case list():
            return all(holds_only_text(entry) for entry in value)
        case _:
            return True


PositiveSeconds: TypeAlias = Annotated[
    Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False, strict=True)],
    must_be("a number of seconds above 0, 3600 at most"),
]
