"""Grade: the validated verdict on one rollout."""

from collections.abc import Iterable, Mapping

from pydantic import Field, FiniteFloat

from rft.core.base import Record


class TokenUsage(Record):
    """What a judge model read and wrote."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


def total_usage(spent: Iterable[Mapping[str, TokenUsage]]) -> dict[str, TokenUsage]:
    """All of it together, by model name."""
    total: dict[str, TokenUsage] = {}
    for usages in spent:
        for model, usage in usages.items():
            total[model] = total.get(model, TokenUsage()) + usage
    return dict(sorted(total.items()))


class PartOutcome(Record):
    """What one part of a multi grader came to, also where another part left the whole without a grade."""

    score: FiniteFloat | None = None
    """None where the part failed."""
    failure_code: str | None = None
    """Why it failed."""
    failure_detail: str | None = None
    """Finer than the code, as in `Failure.detail`."""
    failure_message: str | None = None
    latency_s: float = 0.0
    usage: dict[str, TokenUsage] = Field(default_factory=dict)
    model_errors: tuple[str, ...] = ()


class Grade(Record):
    """A score exists. Zero is a grade; the absence of one is a `Failure`."""

    reward: FiniteFloat
    """The float used for training."""
    scores: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Each grader's raw number by grader name."""
    grader: str
    latency_s: float = 0.0
    attempts: int = 1
    usage: dict[str, TokenUsage] = Field(default_factory=dict)
    """Tokens that judge models used, by model name."""
    model_errors: tuple[str, ...] = ()
    """What was wrong with the model's answer where it cost the score, e.g. `sample_parse_error`."""
    parts: dict[str, PartOutcome] = Field(default_factory=dict)
    """Of a multi grader, by variable name; their tokens are in `usage`, too."""
