"""The order of a regrade on the wire."""

from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from rft.core.rollout import Split
from rft.platform.api.wire import TextBody, must_be
from rft.platform.orders.references import GraderOrReference

MAX_ROLLOUTS = 5_000
DEFAULT_ROLLOUTS = 1_000
_Step = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]


class RegradeCreate(TextBody):
    """Run another grader over a job's stored rollouts."""

    grader: GraderOrReference
    """In full, or by the id of a registered one."""
    split: Split | None = None
    """All of them when absent."""
    steps: (
        Annotated[Annotated[list[_Step], Field(min_length=1, max_length=1000)], must_be("a list of step numbers")]
        | None
    ) = None
    """All when absent. `step` is accepted for a single one."""
    limit: Annotated[
        Annotated[int, Field(ge=1, le=MAX_ROLLOUTS, strict=True)], must_be(f"a whole number from 1 to {MAX_ROLLOUTS}")
    ] = DEFAULT_ROLLOUTS
    """Rollouts at most, from the newest step back; groups stay whole."""

    @model_validator(mode="before")
    @classmethod
    def _accept_step(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "step" not in value or value["step"] is None:
            return value
        if value.get("steps") is not None:
            raise PydanticCustomError("invalid_value", "names both step and steps")
        return {**value, "steps": [value["step"]]}
