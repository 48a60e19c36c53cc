"""Events of a streamed response, as the official SDK types them."""

from typing import Literal

from pydantic import BaseModel, JsonValue

from rft.platform.api.errors import ErrorBody
from rft.platform.serving.responses.schemas import OutputItem, OutputText, ReasoningText, ResponseObject


class StreamEvent(BaseModel, frozen=True):
    """Numbered from 0."""

    type: str
    sequence_number: int = 0


class LifecycleEvent(StreamEvent, frozen=True):
    """The response as it is now."""

    type: Literal[
        "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed"
    ]
    response: ResponseObject


class ItemEvent(StreamEvent, frozen=True):
    """An item begins, or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: OutputItem


class PartEvent(StreamEvent, frozen=True):
    """A part of an item begins, or is complete."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    item_id: str
    output_index: int
    content_index: int = 0
    part: OutputText | ReasoningText


class TextDeltaEvent(StreamEvent, frozen=True):
    """More of a text."""

    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    item_id: str
    output_index: int
    content_index: int = 0
    delta: str
    logprobs: list[JsonValue] = []


class TextDoneEvent(StreamEvent, frozen=True):
    """All of a text."""

    type: Literal["response.output_text.done"] = "response.output_text.done"
    item_id: str
    output_index: int
    content_index: int = 0
    text: str
    logprobs: list[JsonValue] = []


class ReasoningDeltaEvent(StreamEvent, frozen=True):
    """A thought; whole, when its turn is complete."""

    type: Literal["response.reasoning_text.delta"] = "response.reasoning_text.delta"
    item_id: str
    output_index: int
    content_index: int = 0
    delta: str


class ReasoningDoneEvent(StreamEvent, frozen=True):
    """All of a thought."""

    type: Literal["response.reasoning_text.done"] = "response.reasoning_text.done"
    item_id: str
    output_index: int
    content_index: int = 0
    text: str


class ArgumentsDeltaEvent(StreamEvent, frozen=True):
    """A call's arguments; whole, when its turn is complete."""

    type: Literal["response.function_call_arguments.delta"] = "response.function_call_arguments.delta"
    item_id: str
    output_index: int
    delta: str


class ArgumentsDoneEvent(StreamEvent, frozen=True):
    """All of a call's arguments."""

    type: Literal["response.function_call_arguments.done"] = "response.function_call_arguments.done"
    item_id: str
    output_index: int
    name: str
    arguments: str


class ErrorEvent(StreamEvent, frozen=True):
    """The stream ends here. Both as it is typed and as the SDK looks for it, to raise it."""

    type: Literal["error"] = "error"
    code: str | None
    message: str
    param: str | None
    error: ErrorBody
