"""A conversation of the playground on the wire, and its events."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.rollout import StopReason
from rft.platform.api.wire import TextBody, must_be
from rft.platform.serving.message_texts import SaidBody
from rft.platform.serving.schemas import ReasoningEffort, Seed, Temperature, TopP


class PlaygroundBody(SaidBody, TextBody):
    """What is said to the model."""

    messages: Annotated[list[JsonValue], Field(min_length=1, max_length=10_000), must_be("a list of messages")]
    """As in chat completions; the last one is the user's."""
    model: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    """The job's model, one of its checkpoints, or its base model; null: its best checkpoint."""
    item: JsonObject | None = None
    """Further fields of the row that tools are sent as `item`."""
    tools: list[JsonValue] | None = None
    """How the job's tools are described to the model; null: as in the job, or in the first row of its file."""
    temperature: Temperature = None
    top_p: TopP = None
    seed: Seed = None
    reasoning_effort: ReasoningEffort = None
    max_completion_tokens: Annotated[Annotated[int, Field(ge=1)] | None, must_be("an integer above 0")] = None
    """Of one turn."""
    stream: bool | None = None


class PlaygroundUsage(BaseModel):
    """Tokens of turns."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int


class PlaygroundFailure(BaseModel):
    """Why the conversation could not go on, and whose doing that is."""

    stage: str
    fault: str
    code: str
    message: str
    endpoint: str | None
    """The tool, where it was one."""
    status: int | None
    attempts: int

    @classmethod
    def of(cls, failure: Failure) -> "PlaygroundFailure":
        """Without what only training asks for."""
        return cls(
            stage=failure.stage,
            fault=failure.fault,
            code=failure.code,
            message=failure.message,
            endpoint=failure.endpoint,
            status=failure.status,
            attempts=failure.attempts,
        )


class PlaygroundObject(BaseModel):
    """One conversation, from the last message of the request to its end."""

    id: str
    """The `trace_id` that its tool calls had."""
    object: Literal["fine_tuning.job.playground"] = "fine_tuning.job.playground"
    model: str
    messages: list[JsonObject]
    """What was added to those of the request: turns and results, fit to be sent back."""
    stop_reason: StopReason | None
    """Null exactly when there is a failure."""
    failure: PlaygroundFailure | None
    usage: PlaygroundUsage
    duration_s: float


class TextEvent(BaseModel):
    """More of a turn's text."""

    type: Literal["text"] = "text"
    turn: int
    text: str


class TurnEvent(BaseModel):
    """A turn is complete."""

    type: Literal["turn"] = "turn"
    turn: int
    content: str
    reasoning_content: str | None
    usage: PlaygroundUsage | None


class CallEvent(BaseModel):
    """A tool is being called."""

    type: Literal["call"] = "call"
    turn: int
    call_id: str
    name: str
    arguments: str


class ResultEvent(BaseModel):
    """What the model reads of a call."""

    type: Literal["result"] = "result"
    turn: int
    call_id: str
    name: str
    output: str
    error_code: str | None
    """Where the call was the model's mistake."""
    status: int | None
    attempts: int
    latency_s: float


class FailureEvent(BaseModel):
    """The conversation ends in a failure."""

    type: Literal["failure"] = "failure"
    failure: PlaygroundFailure


class EndEvent(BaseModel):
    """The last event."""

    type: Literal["end"] = "end"
    conversation: PlaygroundObject


PlaygroundEvent = TextEvent | TurnEvent | CallEvent | ResultEvent | FailureEvent | EndEvent
