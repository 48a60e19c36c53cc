"""Responses on the wire, as the official SDK types them."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from rft.core.base import JsonObject
from rft.platform.api.wire import TextBody, must_be
from rft.platform.orders.response_format import ResponseFormatWanted
from rft.platform.orders.schemas import Metadata
from rft.platform.serving.message_texts import SaidBody
from rft.platform.serving.schemas import ReasoningEffort, Seed, Temperature, TopP

SEALED_TURNS = "reasoning.encrypted_content"
"""What `include` may ask for."""
Truncation = Literal["auto", "disabled"]


class ReasoningBody(TextBody):
    """How much is thought. Summaries are not made: thoughts come as they are."""

    effort: ReasoningEffort = None


class TextConfigBody(TextBody):
    """What the text is to be."""

    format: ResponseFormatWanted | None = None


class ResponseBody(SaidBody, TextBody):
    """A request. Fields that change no answer here are accepted; see `responses.order` for those that are refused."""

    model: Annotated[str, Field(min_length=1, max_length=512)]
    input: Annotated[
        Annotated[str, Field(min_length=1)] | Annotated[list[JsonValue], Field(min_length=1, max_length=10_000)],
        must_be("a text or a list of items"),
    ]
    instructions: str | None = None
    tools: list[JsonValue] | None = None
    tool_choice: JsonValue = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Annotated[Annotated[int, Field(ge=1)] | None, must_be("an integer above 0")] = None
    temperature: Temperature = None
    top_p: TopP = None
    seed: Seed = None
    """Ours: the same seed gives the same answer."""
    reasoning: ReasoningBody | None = None
    text: TextConfigBody | None = None
    include: Annotated[list[str], Field(fail_fast=True)] | None = None
    store: bool | None = None
    stream: bool | None = None
    truncation: Annotated[Truncation | None, must_be("'disabled'")] = None
    metadata: Metadata | None = None
    return_token_ids: bool | None = None
    """Ours: add `prompt_token_ids` and `token_ids`."""


class OutputText(BaseModel):
    """What is said."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[JsonValue] = []
    logprobs: list[JsonValue] = []


class OutputMessage(BaseModel):
    """A message of the model."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[OutputText]


class ReasoningText(BaseModel):
    """A thought."""

    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class ReasoningItem(BaseModel):
    """What was thought before the items behind it."""

    id: str
    type: Literal["reasoning"] = "reasoning"
    summary: list[JsonValue] = []
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    """The turn as it was sampled, sealed: sent back, the model goes on from these very tokens."""
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class FunctionCallItem(BaseModel):
    """A call."""

    id: str
    type: Literal["function_call"] = "function_call"
    call_id: str
    name: str
    arguments: str
    """JSON text as the model wrote it."""
    status: Literal["in_progress", "completed"]


OutputItem = ReasoningItem | OutputMessage | FunctionCallItem


class InputTokensDetails(BaseModel):
    """Of the input's tokens."""

    cached_tokens: int
    """Those of earlier turns that were taken as they were sampled, and not encoded again."""
    cache_write_tokens: int = 0


class OutputTokensDetails(BaseModel):
    """Of the sampled tokens."""

    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """Tokens of a request."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class FunctionTool(BaseModel):
    """A tool as the request describes it."""

    type: Literal["function"] = "function"
    name: str
    description: str | None
    parameters: JsonObject
    strict: bool = False
    """Arguments are never constrained."""


class TextConfig(BaseModel):
    """What the text is."""

    format: JsonObject = {"type": "text"}
    """As it was asked for."""


class ReasoningConfig(BaseModel):
    """As it was asked for."""

    effort: str | None
    summary: None = None


class IncompleteDetails(BaseModel):
    """Why there is no more."""

    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseError(BaseModel):
    """Why there is no answer."""

    code: Literal["server_error"] = "server_error"
    message: str


class InputTransformation(BaseModel):
    """A reasoning item that the model does not see as it was sampled: its turn was rendered from its text."""

    id: str
    type: Literal["reasoning"] = "reasoning"
    action: Literal["removed"] = "removed"
    reason: Literal["model_mismatch", "prefix_mismatch", "turn_boundary"]


ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]


class ResponseObject(BaseModel):
    """A response, whole or as far as it came."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: ResponseStatus
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    input_transformations: list[InputTransformation] | None = None
    """Null where every reasoning item was taken as it is."""
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: None = None
    background: Literal[False] = False
    reasoning: ReasoningConfig
    store: Literal[False] = False
    temperature: float
    text: TextConfig = TextConfig()
    tool_choice: JsonValue
    tools: list[FunctionTool]
    top_p: float
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None = None
    prompt_token_ids: list[int] | None = None
    """Ours, where `return_token_ids` asks for it."""
    token_ids: list[int] | None = None
    """Ours: from the end of the prompt on."""
