"""Graders on the wire: `method.reinforcement.grader`."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, FiniteFloat
from pydantic_core import PydanticCustomError

from rft.platform.api.wire import OpenBody, PositiveSeconds, must_be
from rft.platform.tools.fields import EndpointUrl, Headers

LATER = ("string_check", "text_similarity", "score_model", "label_model", "python", "multi")
"""Types of the contract that this release does not run yet."""


def _supported_type(value: Any) -> Any:
    if value in LATER:
        raise PydanticCustomError(
            "unsupported_grader",
            "graders of type '{type}' are not available in this release; use one of type 'endpoint'",
            {"type": value},
        )
    if value != "endpoint":
        raise PydanticCustomError("invalid_value", "must be 'endpoint'")
    return value


class EndpointGrader(OpenBody):
    """The customer's grader behind a URL: POST `{sample, item, trace_id}`, answer `{score}`."""

    type: Annotated[Literal["endpoint"], BeforeValidator(_supported_type)]
    url: EndpointUrl
    name: (
        Annotated[Annotated[str, Field(min_length=1, max_length=64)], must_be("a text of 1 to 64 characters")] | None
    ) = None
    """Invented when absent."""
    headers: Headers | None = None
    """Sent with every request; values are shown masked."""
    rate_limit: (
        Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)], must_be("a number above 0")] | None
    ) = None
    """Requests per second at most."""
    pass_threshold: FiniteFloat | None = None
    timeout_s: PositiveSeconds | None = None
    """Ours: deadline of one attempt."""


Grader: TypeAlias = EndpointGrader
"""Grows into a union tagged by `type` when the built-in graders arrive."""
