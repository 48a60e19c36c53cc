"""The registry of tools and graders on the wire."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.platform.api.pagination import Listed
from rft.platform.api.wire import OpenBody, holds_only_text, must_be, refused_at
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.tool_fields import either_url
from rft.platform.orders.tool_schemas import Tool


def storable(value: Any) -> Any:
    """The body, if every string of it can be written as UTF-8 and stored."""
    if not holds_only_text(value):
        raise PydanticCustomError("invalid_value", "contains a NUL or half a surrogate pair, which cannot be stored")
    return value


def _without_id(schema: dict[str, Any]) -> None:
    """Tells the document that the id is not the caller's to give."""
    either_url(schema)
    schema["properties"]["id"] |= {"readOnly": True}


class ToolCreate(Tool):
    """A tool to be registered; the fields are those of a job's tool."""

    model_config = ConfigDict(json_schema_extra=_without_id)

    @model_validator(mode="before")
    @classmethod
    def _has_no_id(cls, value: Any) -> Any:
        if isinstance(value, dict) and "id" in value:
            raise refused_at(("id",), "the id is given by the platform; leave it out")
        return storable(value)


class GraderCreate(OpenBody):
    """A grader to be registered."""

    grader: Grader

    @model_validator(mode="before")
    @classmethod
    def _is_storable(cls, value: Any) -> Any:
        return storable(value)


class HealthObject(BaseModel):
    """How it fares, by the newest thing known: calls of the last job that used it, or the last test."""

    status: Literal["unknown", "healthy", "degraded", "failing"]
    """`degraded` above 5% failing attempts or 90% that were answered 4xx, `failing` above 50% or when the last test
    failed."""
    last_seen: int | None
    """When it was last called."""
    error_share: float | None
    """Failed attempts in the newest two steps of the last job that used it; null without such a job."""
    client_error_share: float | None
    """Attempts among the same that were answered 4xx and count as answered: the model read it."""
    attempts: int
    """How many attempts these shares are of."""
    last_failure: str | None
    """Code of the newest failure among them, or what the last test complained of."""


class ToolObject(Listed):
    """A registered tool, header values redacted; unknown fields of its registration are echoed beside these."""

    model_config = ConfigDict(extra="allow")

    object: Literal["tool"] = "tool"
    created_at: int
    updated_at: int
    name: str
    server_url: str
    headers: dict[str, str] | None
    description: str | None
    parameters: JsonObject | None
    timeout_s: float | None
    max_output_chars: int | None
    max_concurrency: int | None
    rate_limit: float | None
    retry: Literal["safe", "unsafe"]
    callback_url: str | None
    health: HealthObject


class GraderObject(Listed):
    """A registered grader, header values redacted."""

    object: Literal["grader"] = "grader"
    created_at: int
    updated_at: int
    name: str
    type: str
    grader: JsonObject
    health: HealthObject


class RegistrationDeleted(BaseModel):
    """It is gone; jobs keep their copies."""

    id: str
    object: Literal["tool", "grader"]
    deleted: bool = True


class ToolTry(OpenBody):
    """One call to be made."""

    arguments: Annotated[dict[str, JsonValue], must_be("an object")] = Field(default_factory=dict[str, JsonValue])
    item: Annotated[dict[str, JsonValue], must_be("an object")] = Field(default_factory=dict[str, JsonValue])
    """What the tool receives as the dataset row."""


class GraderTry(OpenBody):
    """One answer to be graded."""

    model_sample: Annotated[str, must_be("a text")] = ""
    """What the model answered."""
    item: Annotated[dict[str, JsonValue], must_be("an object")] = Field(default_factory=dict[str, JsonValue])
    """The dataset row."""


class TriedAttempt(BaseModel):
    """One HTTP attempt."""

    attempt: int
    status: int | None
    code: str | None
    """Null for a usable reply."""
    latency_ms: float


class ToolTested(BaseModel):
    """What came of a test call."""

    object: Literal["tool.test"] = "tool.test"
    tool_id: str
    trace_id: str
    is_ok: bool
    """The tool answered with an output, and not with a complaint about the call."""
    output: str | None
    """What the model would read, error messages included; null when the call failed."""
    error_code: str | None
    """Why the model would be told of a mistake."""
    failure: Failure | None
    """What would end a rollout."""
    latency_s: float
    attempts: list[TriedAttempt]


class GraderTested(BaseModel):
    """What came of a test grade."""

    object: Literal["grader.test"] = "grader.test"
    grader_id: str
    trace_id: str
    is_ok: bool
    reward: float | None
    """Null when there is no grade."""
    scores: dict[str, float]
    failure: Failure | None
    error_details: str | None
    """Why the reward is 0 or `invalid_grade` without a judgment: what a python grader raised, say."""
    latency_s: float
    attempts: list[TriedAttempt]
