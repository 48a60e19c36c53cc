"""Registered tools and graders as an order names them: by id alone."""

from typing import Annotated, Any, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.tool_schemas import Tool

TOOL_PREFIX = "tool_"
GRADER_PREFIX = "grader_"


class ToolReference(BaseModel):
    """A registered tool, copied into the job when it is created."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^tool_[0-9A-Za-z]{1,64}$")]


class GraderReference(BaseModel):
    """A registered grader, copied into the job when it is created."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^grader_[0-9A-Za-z]{1,64}$")]


_TOOL = TypeAdapter[Tool](Tool)
_GRADER = TypeAdapter[Grader](Grader)


def _chosen(value: Any, prefix: str, reference: type[BaseModel], given: TypeAdapter[Any]) -> Any:
    """One or the other, never a guess from both: then errors name the field of the one that was meant."""
    if isinstance(value, BaseModel):
        return value
    if not isinstance(value, dict):
        return given.validate_python(value)
    order = cast("dict[str, Any]", value)
    if not str(order.get("id", "")).startswith(prefix):
        return given.validate_python(order)
    for key in order:
        if key != "id":
            both = PydanticCustomError(
                "invalid_value", "a registered one is named by its id alone: leave this out, or the id"
            )
            raise ValidationError.from_exception_data("reference", [{"type": both, "loc": (key,), "input": None}])
    return reference.model_validate(order)


def _tool(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
    return _chosen(value, TOOL_PREFIX, ToolReference, _TOOL)


def _grader(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
    return _chosen(value, GRADER_PREFIX, GraderReference, _GRADER)


ToolOrReference: TypeAlias = Annotated[Tool | ToolReference, WrapValidator(_tool)]
GraderOrReference: TypeAlias = Annotated[Grader | GraderReference, WrapValidator(_grader)]
