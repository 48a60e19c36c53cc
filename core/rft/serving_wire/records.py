"""What a serving process is started with, what it is asked, and what it answers."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from rft.core.base import Record
from rft.core.chat_spec import ChatSpec
from rft.core.messages import Message, ToolCall, ToolSchema
from rft.core.response_format import ResponseFormat
from rft.core.spec import Budgets, VllmSpec


class ServingSpec(Record):
    """What a process serves, read from its standard input: one base model, and any adapters of it."""

    base_model: str
    """Local directory (or hub name)."""
    chat: ChatSpec = ChatSpec()
    engine: str
    """As in `RunSpec`."""
    vllm: VllmSpec = VllmSpec()
    lora_rank: Annotated[int, Field(ge=1)] = 16
    """Of the largest adapter."""
    torch_threads: Annotated[int, Field(ge=1)] = 2
    folder: str
    """Where it may keep what belongs to it."""
    idle_s: Annotated[float, Field(gt=0)]
    """It ends after so long without a request."""
    requests_at_once: Annotated[int, Field(ge=1)]
    """Answered at a time; further ones are refused."""
    queue_s: Annotated[float, Field(gt=0)]
    """How long a request may wait for its adapter while another one is sampled from."""
    cached_tokens: Annotated[int, Field(ge=0)]
    """Of remembered conversations, together."""
    token: str
    """What callers show."""
    vllm_api_key: str | None = None


class ServingEndpoint(Record):
    """Where a process listens, on the loopback address."""

    port: int
    token: str
    pid: int


class AdapterRef(Record):
    """A checkpoint's adapter."""

    directory: str
    chat: ChatSpec | None = None
    """How its policy's chat was rendered, for checkpoints that keep no record of it; None: as the base model's."""
    reasoning_effort: str = "default"
    """What it was trained with."""
    budgets: Budgets | None = None
    """Those of its order, what that leaves open by today's settings: its thoughts are kept to their limit."""


class SampledTurn(Record):
    """An assistant's turn with what its text cannot give back; whoever keeps it can have the conversation go on as it
    was sampled."""

    prompt_sha256: str
    """Of the ids that it answers (`prompt_digest`): of every message before it, the tools and the chat template."""
    token_ids: tuple[int, ...]
    """From the end of the prompt on; includes what closed thoughts that were too long, and what answered unreadable
    calls."""
    said_sha256: str
    """Of its message as the client got it, without thoughts."""
    reasoning: str
    """Its thoughts as the client got them."""
    shown_calls: tuple[ToolCall, ...] = ()
    """As the chat template gets them, in order; those that cannot be read have no name."""
    wire_ids: tuple[str | None, ...] = ()
    """The id of each call as the client got it; None where it got none: the call cannot be read."""


class GiveWay(Record):
    """Asks a process to end as soon as it answers nobody: a trainer needs its memory. Nothing is answered to it."""

    token: str
    gives_way: Literal[True] = True


class CompletionRequest(Record):
    """A request for answers, checked: of `POST /v1/chat/completions` or `POST /v1/responses`."""

    token: str
    model: str
    """The public name: conversations are remembered by it."""
    adapter: AdapterRef | None = None
    """None: the base model."""
    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    tools: tuple[ToolSchema, ...] = ()
    forced_calls: tuple[str, ...] = ()
    """Names of tools, one of which the turn has to call; none: as the policy likes."""
    n: Annotated[int, Field(ge=1)] = 1
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of each choice; None: what the context leaves."""
    stop: tuple[str, ...] = ()
    reasoning_effort: str | None = None
    """None: what the policy was trained with."""
    budgets: Budgets | None = None
    """To whose limit thoughts are kept; None: to that of the policy's training."""
    response_format: ResponseFormat | None = None
    """What an answer without calls is to be; None: any text."""
    has_parallel_calls: bool = True
    is_streamed: bool = False
    """Tell text as it comes."""
    has_logprobs: bool = False
    """Tell every sampled token. Below a `top_p` of 1, engines differ in what their log-probabilities mean."""
    sampled_turns: dict[int, SampledTurn] = Field(default_factory=dict[int, SampledTurn])
    """By the index of their message: assistant's turns that the client has kept."""
    keeps_turns: bool = False
    """Tell of each choice what keeps its turn."""


class WithheldTurn(Record):
    """A kept turn that the policy does not see as it was sampled."""

    message: int
    """Index of its message."""
    reason: Literal["prefix_mismatch", "turn_boundary"]
    """The conversation was changed; or a user has spoken since, and templates render what was before."""


class Prompt(Record):
    """The prompt is read, and its policy has begun to sample."""

    event: Literal["prompt"] = "prompt"
    prompt_tokens: int
    remembered_tokens: int
    """Of them, those that were not rendered again: an earlier turn's own."""
    is_rendered_again: bool
    """An assistant's turn in the conversation was encoded anew from its text."""
    token_ids: tuple[int, ...]
    withheld: tuple[WithheldTurn, ...] = ()


class Text(Record):
    """More of a choice's text."""

    event: Literal["text"] = "text"
    index: int
    text: str
    has_thought: bool = False
    """A thought stands in front of it; the choice will have it."""
    completion_tokens: int = 0
    """Sampled for the choice so far."""


class SampledToken(Record):
    """One token as it is told."""

    text: str
    logprob: float
    utf8: tuple[int, ...]
    """Its bytes, which may be a part of a character alone; `text` has replacement characters for those."""


class Choice(Record):
    """A choice is complete."""

    event: Literal["choice"] = "choice"
    index: int
    finish_reason: Literal["stop", "length", "tool_calls"]
    content: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    completion_tokens: int
    reasoning_tokens: int
    token_ids: tuple[int, ...]
    """From the end of the prompt on; includes what closed thoughts that were too long, and what answered unreadable
    calls."""
    tokens: tuple[SampledToken, ...] = ()
    """Those that were sampled, where they were asked for."""
    turn: SampledTurn | None = None
    """Where it was asked for; None, too, where the client does not get all of the turn."""


class Refused(Record):
    """The request is not answered, or not to its end. Nothing follows."""

    event: Literal["refused"] = "refused"
    kind: Literal["bad_request", "not_found", "unavailable", "broken"]
    code: str
    message: str
    param: str | None = None
    retry_after_s: float | None = None


class Done(Record):
    """All choices are complete. Nothing follows."""

    event: Literal["done"] = "done"


Event: TypeAlias = Annotated[Prompt | Text | Choice | Refused | Done, Field(discriminator="event")]
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
Asked: TypeAlias = CompletionRequest | GiveWay
"""What a process is sent, one line a connection."""
ASKED: TypeAdapter[Asked] = TypeAdapter(Asked)
