"""Grade: the validated verdict on one rollout."""

from collections.abc import Iterable, Mapping
from math import isfinite

from pydantic import Field, FiniteFloat

from rft.core.base import Record

MAX_SCORE = 1e15
"""No score lies beyond it, on either side of 0: the squares of a whole step's add up even in single precision."""

MAX_REPLY_CHARS = 2000
"""What is kept of a grader's answer: it says why, and there is one for every rollout."""

MAX_REQUEST_CHARS = 4000
"""What is kept of the request: a judge's messages are whole in most cases, of what is longer both ends."""

SAMPLE_PARSE_ERROR = "sample_parse_error"
"""The answer does not fit `response_format`, lacks what a grader's template names, or is too long to be judged."""
RUNTIME_ERROR = "python_grader_runtime_error"
"""A python grader came to no score on this answer: it raised, returned no number, or reached a limit of its own."""
FORMULA_ERROR = "formula_parse_error"
"""The formula of a multi grader has no value for these scores."""
CODE_ERRORS = frozenset({RUNTIME_ERROR, FORMULA_ERROR})
"""What code in the order did; where it is frequent, the grader is broken."""


def score_problem(value: float) -> str | None:
    """Why this number is no score, as the end of a sentence."""
    if not isfinite(value):
        return f"{value}, which is not finite"
    if abs(value) > MAX_SCORE:
        return f"{value:.6g}, which lies beyond {MAX_SCORE:g}"
    return None


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
    """None where the part failed, or was not asked because the answer does not fit `response_format`."""
    failure_code: str | None = None
    """Why it failed."""
    failure_detail: str | None = None
    """Finer than the code, as in `Failure.detail`."""
    failure_message: str | None = None
    latency_s: float = 0.0
    usage: dict[str, TokenUsage] = Field(default_factory=dict)
    model_errors: tuple[str, ...] = ()
    error_details: str | None = None
    """As in `Grade`."""
    request: str | None = None
    """As in `Grade`."""
    reply: str | None = None
    """As in `Grade`."""


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
    """What cost the answer its score, under the contract's names: `sample_parse_error`, and those of `CODE_ERRORS`."""
    error_details: str | None = None
    """That in words; of a python grader with the traceback. Shortened, without paths of our machine."""
    request: str | None = None
    """The body that the endpoint or the judge was sent: shortened in its middle, without the secrets of the call, and
    an endpoint's without the conversation, which is kept beside the grade. None where nobody was asked."""
    reply: str | None = None
    """What they answered, as it came: shortened, and without the secrets of the call. None where nobody was asked."""
    is_invalid: bool = False
    """No judgment: the answer could not be judged, and the contract grades that 0, or the grader's `invalid_grade`."""
    parts: dict[str, PartOutcome] = Field(default_factory=dict)
    """Of a multi grader, by variable name; their tokens are in `usage`, too."""
