"""What a rollout of messages asks of a model that is reached as a chat: a served one of ours, or a provider's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from rft.core.failure import Failure
from rft.core.messages import Message, ToolCall, ToolSchema
from rft.core.response_format import ResponseFormat
from rft.core.spec import Budgets, RunSpec

UNUSABLE_MODEL = "unusable_model"
"""`Failure.detail` where the model cannot be asked: a wrong key, a model that is not there."""
UNKEPT_FORMAT = "unkept_format"
"""`Failure.detail` where no answer of the model can be held to the response_format."""
MET_BY_ALL = frozenset({UNUSABLE_MODEL, UNKEPT_FORMAT})
"""What every further rollout would meet, too."""


class ChatFinish(StrEnum):
    """Why a model said no more."""

    STOP = "stop"
    """It was done, or it calls tools."""
    LENGTH = "length"
    """Cut at `max_tokens`, or at a limit of the model's own."""
    CONTEXT_FULL = "context_full"
    """The conversation does not fit the model's context: nothing was said."""


@dataclass(frozen=True, slots=True)
class ChatSampling:
    """How turns are sampled; None leaves it to the model's server."""

    temperature: float | None = 1.0
    top_p: float | None = 1.0
    max_tokens: int | None = None
    """Of one turn."""
    seed: int | None = None
    reasoning_effort: str | None = None
    budgets: Budgets | None = None
    """To whose limit thoughts are kept, by models that are served here."""
    response_format: ResponseFormat | None = None


def jobs_effort(spec: RunSpec) -> str | None:
    """What a model that the job has not trained is asked for, to think as the job's policy does."""
    return None if spec.reasoning_effort == "default" else spec.reasoning_effort


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One turn to be said."""

    messages: Sequence[Message]
    """Calls in them have the ids that the policy gave them."""
    tools: Sequence[ToolSchema]
    sampling: ChatSampling
    trace_id: str
    """Of the rollout that it belongs to."""
    turn: int = 0
    """Its number in the rollout, from 0."""
    on_no_turn: Callable[["ChatUsage | None"], None] | None = None
    """Told of each answer that holds no turn, with the tokens that it took: None where the server does not tell."""


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Tokens of turns, as the model's server counts them."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Those of the prompt that were not computed anew."""
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Those of the completion that were thoughts."""

    def __add__(self, other: "ChatUsage") -> "ChatUsage":
        return ChatUsage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """What a model said."""

    content: str
    finish_reason: ChatFinish
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """With ids as the policy wants them back; one that cannot be read has an empty name."""
    usage: ChatUsage | None = field(default_factory=ChatUsage)
    """None where the server does not tell."""
    model: str = ""
    """Which one says that it answered."""
    attempts: int = 1
    """How often it was asked, this time included."""


class ChatPolicy(Protocol):
    """Says the next turn of a conversation. It shows no tokens, so nothing it says can be trained on."""

    @property
    def provider(self) -> str | None:
        """The customer's provider that is blamed for being slow; None where the model is one of ours."""
        ...

    @property
    def max_concurrency(self) -> int:
        """As many rollouts are worth having under way at once."""
        ...

    async def complete(self, request: ChatRequest) -> ChatTurn | Failure:
        """The turn, or why there is none after all retries. What it raises is taken for a failure of ours."""
        ...
