"""What all rollouts of a run share."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rft.core.spec import Budgets
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.gateways import GraderGateway, GroupGrader, RolloutHost, ToolGateway
from rft.rollouts.hold import Hold
from rft.rollouts.sampler import ChatFormat, Sampler

Clock = Callable[[], float]
"""Seconds from an arbitrary start, never going back."""


@dataclass(frozen=True, slots=True)
class RolloutSetup:
    """What all rollouts of a run share."""

    sampler: Sampler
    chat_format: ChatFormat
    tools: ToolGateway
    grader: GraderGateway | None
    """None where `group_grader` judges."""
    grader_name: str
    budgets: Budgets
    temperature: float
    model_name: str
    group_grader: GroupGrader | None = None
    """Judges all rollouts of a group at once, instead of `grader` each alone."""
    host: RolloutHost | None = None
    """Who is told that a rollout begins and ends."""
    hold: Hold | None = None
    """Lets rounds wait for endpoints that are down; None: they are used as they come out."""
    deadlines: Deadlines = field(default_factory=Deadlines)
    clock: Clock = time.monotonic
    """Measures durations only; the deadline is kept by the event loop."""
