"""Grade: the validated verdict on one rollout."""

from pydantic import Field, FiniteFloat

from rft.core.base import Record


class Grade(Record):
    """A score exists. Zero is a grade; the absence of one is a `Failure`."""

    reward: FiniteFloat
    """The float used for training."""
    scores: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Each grader's raw number by grader name."""
    grader: str
    latency_s: float = 0.0
    attempts: int = 1
