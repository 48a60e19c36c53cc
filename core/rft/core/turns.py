"""Trace: the append-only token record of a rollout. Text the model produced is never encoded again."""

from dataclasses import dataclass, field

from rft.core.messages import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """The tokens one message adds to the trace; all three have the same length T."""

    token_ids_T: tuple[int, ...]
    mask_T: tuple[bool, ...]
    """True where the policy sampled the token."""
    logprobs_T: tuple[float, ...]
    """Log-probability under the policy that sampled; 0.0 where the mask is False."""

    def __post_init__(self) -> None:
        if not len(self.token_ids_T) == len(self.mask_T) == len(self.logprobs_T):
            raise ValueError("token ids, mask and logprobs of a span differ in length")

    @classmethod
    def sampled(cls, token_ids: tuple[int, ...], logprobs: tuple[float, ...]) -> "TokenSpan":
        """Tokens the policy produced."""
        return cls(token_ids, (True,) * len(token_ids), logprobs)

    @classmethod
    def context(cls, token_ids: tuple[int, ...]) -> "TokenSpan":
        """Tokens somebody else produced: prompt, tool output, template glue."""
        return cls(token_ids, (False,) * len(token_ids), (0.0,) * len(token_ids))


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """When a turn was: the policy's sample, then the calls it asked for."""

    began_at: float
    """Unix time in seconds when its sample was asked for."""
    sampling_s: float
    """Waiting for the engine included."""
    tools_s: float
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One sample from the policy plus its tool results."""

    content: str
    """The model's visible text without its tool calls."""
    raw_text: str
    """Everything the model wrote, decoded once, for reading only."""
    tool_calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    """One per tool call, in the same order; empty on the last turn or when the rollout broke off."""
    completion_tokens: int
    sampling_s: float
    tools_s: float
    reasoning_tokens: int = 0
    """Those of `completion_tokens` that were thoughts; the marks around them do not count."""
    policy_version: int | None = None
    """Which one sampled it; None: the one that the rollout began with."""
    began_at: float | None = None
    """Unix time in seconds when its sample was asked for; None where nobody noted it."""

    @property
    def times(self) -> TurnTimes | None:
        """When it was, if that was noted."""
        if self.began_at is None:
            return None
        return TurnTimes(self.began_at, self.sampling_s, self.tools_s, self.completion_tokens)


@dataclass(slots=True)
class Trace:
    """Prompt plus spans, in the order the model saw them. Only ever appended to."""

    prompt_ids: tuple[int, ...]
    spans: list[TokenSpan] = field(default_factory=list[TokenSpan])
    turns: list[Turn] = field(default_factory=list[Turn])

    def append(self, span: TokenSpan) -> None:
        """Add a span at the end."""
        self.spans.append(span)

    @property
    def token_ids(self) -> list[int]:
        """Prompt and everything after it: exactly what the model is conditioned on next."""
        return [*self.prompt_ids, *(token for span in self.spans for token in span.token_ids_T)]

    @property
    def completion_ids_T(self) -> list[int]:
        """All tokens after the prompt, tool output included."""
        return [token for span in self.spans for token in span.token_ids_T]

    @property
    def mask_T(self) -> list[bool]:
        """Aligned with `completion_ids_T`."""
        return [is_sampled for span in self.spans for is_sampled in span.mask_T]

    @property
    def logprobs_T(self) -> list[float]:
        """Aligned with `completion_ids_T`."""
        return [logprob for span in self.spans for logprob in span.logprobs_T]

    @property
    def reasoning_tokens(self) -> int:
        """How many of the sampled tokens were thoughts."""
        return sum(turn.reasoning_tokens for turn in self.turns)

    @property
    def sampled_tokens(self) -> int:
        """How many tokens the policy produced."""
        return sum(sum(span.mask_T) for span in self.spans)
