"""A conversation that ended and has no grade yet, as data: it can be graded in another process than it was led in."""

from dataclasses import dataclass

from rft.core.events import RolloutBegan
from rft.core.failure import Failure, Stage
from rft.core.messages import Message
from rft.core.rollout import StopReason
from rft.core.turns import Trace


@dataclass(frozen=True, slots=True)
class EndedConversation:
    """Everything a grade needs, and everything the finished rollout will tell."""

    began: RolloutBegan
    trace: Trace
    stop_reason: StopReason
    messages: tuple[Message, ...]
    spent_s: dict[Stage, float]
    conversed_s: float
    """From the beginning to the last turn, without gradings."""
    cut_tokens: int
    failure: Failure | None
    """Why the last grading gave no grade; None before the first one."""
