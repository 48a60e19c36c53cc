"""Chat completions on the wire, as the official SDK types them."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field, JsonValue

from rft.platform.api.wire import TextBody, must_be
from rft.platform.orders.response_format import ResponseFormatWanted
from rft.platform.serving.message_texts import SaidBody

MAX_CHOICES = 128
MAX_STOPS = 4
_Number = Annotated[float, Field(allow_inf_nan=False)]


def _is_none(value: object) -> bool:
    return value is None


_LEFT_OUT = Field(exclude_if=_is_none)
"""Where it is None. Other fields that are None are written as null, as the hosted service writes them."""

Seed: TypeAlias = Annotated[Annotated[int, Field(ge=-(2**63), lt=2**63)] | None, must_be("an integer of 64 bits")]
Temperature: TypeAlias = Annotated[Annotated[_Number, Field(ge=0, le=2)] | None, must_be("a number from 0 to 2")]
TopP: TypeAlias = Annotated[Annotated[_Number, Field(ge=0, le=1)] | None, must_be("a number from 0 to 1")]
ReasoningEffort: TypeAlias = Annotated[
    Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None,
    must_be("one of none, minimal, low, medium, high, xhigh, max"),
]


class StreamOptions(TextBody):
    """What a stream tells beside its text."""

    include_usage: bool | None = None


class ChatCompletionBody(SaidBody, TextBody):
    """A request. Fields that change no answer here are accepted; see `serving.order` for those that are refused."""

    model: Annotated[str, Field(min_length=1, max_length=512)]
    messages: Annotated[list[JsonValue], Field(min_length=1, max_length=10_000), must_be("a list of messages")]
    tools: list[JsonValue] | None = None
    tool_choice: JsonValue = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None, must_be(f"1 to {MAX_CHOICES}")] = None
    seed: Seed = None
    temperature: Temperature = None
    top_p: TopP = None
    stop: Annotated[
        Annotated[str, Field(min_length=1)]
        | Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=MAX_STOPS)]
        | None,
        must_be(f"a text, or a list of up to {MAX_STOPS} texts"),
    ] = None
    max_completion_tokens: Annotated[Annotated[int, Field(ge=1)] | None, must_be("an integer above 0")] = None
    max_tokens: Annotated[Annotated[int, Field(ge=1)] | None, must_be("an integer above 0")] = None
    """The older name of the same."""
    logprobs: bool | None = None
    top_logprobs: Annotated[
        Annotated[int, Field(ge=0, le=0)] | None,
        must_be("0: engines here tell the log-probability of sampled tokens alone"),
    ] = None
    reasoning_effort: ReasoningEffort = None
    response_format: ResponseFormatWanted | None = None
    return_token_ids: bool | None = None
    """Ours, as vLLM has it: add `prompt_token_ids` and each choice's `token_ids`."""


class DeploymentChatBody(ChatCompletionBody):
    """A request whose path names the model."""

    model: str = ""
    """Does not count: Azure's clients send anything here, or nothing."""


class FunctionCall(BaseModel):
    """What the model calls."""

    name: str
    arguments: str
    """JSON text as the model wrote it."""


class MessageToolCall(BaseModel):
    """One call of a message."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class AssistantMessage(BaseModel):
    """What the model says."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    tool_calls: Annotated[list[MessageToolCall] | None, _LEFT_OUT] = None
    reasoning_content: Annotated[str | None, _LEFT_OUT] = None
    """Ours: its thoughts, where it has any."""


class TokenLogprob(BaseModel):
    """One sampled token."""

    token: str
    """With replacement characters where it holds only a part of one."""
    bytes: list[int]
    logprob: float
    top_logprobs: list[JsonValue] = []
    """Always empty."""


class ChoiceLogprobs(BaseModel):
    """Every sampled token of a choice, those of calls and the last one included."""

    content: list[TokenLogprob]
    refusal: None = None


FinishReason = Literal["stop", "length", "tool_calls"]


class CompletionChoice(BaseModel):
    """One answer."""

    index: int
    finish_reason: FinishReason
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None = None
    token_ids: Annotated[list[int] | None, _LEFT_OUT] = None
    """Ours: from the end of the prompt on."""


class PromptTokensDetails(BaseModel):
    """Of the prompt's tokens."""

    cached_tokens: int
    """Those of earlier turns that were taken as they were sampled, and not encoded again."""


class CompletionTokensDetails(BaseModel):
    """Of the sampled tokens."""

    reasoning_tokens: int


class CompletionUsage(BaseModel):
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class ChatCompletion(BaseModel):
    """A whole reply."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage
    prompt_token_ids: Annotated[list[int] | None, _LEFT_OUT] = None
    """Ours, where `return_token_ids` asks for it."""


class DeltaFunction(BaseModel):
    """A call's name and arguments, whole."""

    name: str
    arguments: str


class DeltaToolCall(BaseModel):
    """One call in a stream: told at once, when its turn is complete."""

    index: int
    id: str
    type: Literal["function"] = "function"
    function: DeltaFunction


class ChoiceDelta(BaseModel):
    """What is new in a choice."""

    role: Annotated[Literal["assistant"] | None, _LEFT_OUT] = None
    content: Annotated[str | None, _LEFT_OUT] = None
    tool_calls: Annotated[list[DeltaToolCall] | None, _LEFT_OUT] = None
    reasoning_content: Annotated[str | None, _LEFT_OUT] = None


class ChunkChoice(BaseModel):
    """A choice in a stream."""

    index: int
    delta: ChoiceDelta
    finish_reason: FinishReason | None = None
    logprobs: ChoiceLogprobs | None = None
    token_ids: Annotated[list[int] | None, _LEFT_OUT] = None


class ChatCompletionChunk(BaseModel):
    """A part of a streamed reply."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Annotated[CompletionUsage | None, _LEFT_OUT] = None
    prompt_token_ids: Annotated[list[int] | None, _LEFT_OUT] = None
