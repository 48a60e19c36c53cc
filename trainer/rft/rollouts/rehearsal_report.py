"""What a rehearsal was to do, and what came of it."""

from typing import Annotated

from pydantic import Field

from rft.core.base import Record
from rft.core.failure import FailureCode, Stage


class RehearsalPlan(Record):
    """The burst of one training step, and how a rehearsal plays it."""

    rows_per_step: Annotated[int, Field(ge=1)]
    group_size: Annotated[int, Field(ge=1)]
    """Rollouts per row."""
    rollouts: Annotated[int, Field(ge=1)]
    """What is played: the burst, or less where that is larger than a rehearsal may be."""
    calls_per_rollout: Annotated[int, Field(ge=0)]
    """Tool calls of each rollout, one after the other."""
    think_time_s: Annotated[float, Field(ge=0)] = 0.1
    """Mean pause before each call, where a model would be sampling."""
    max_s: Annotated[float, Field(gt=0)] = 300.0
    """What is not finished by then is broken off."""

    @property
    def burst(self) -> int:
        """Rollouts that a training step starts at once."""
        return self.rows_per_step * self.group_size


class EndpointReport(Record):
    """One tool, or one endpoint grader, under the burst. Latencies are those of answered attempts."""

    stage: Stage
    name: str
    url: str
    """Without query and credentials."""
    is_callback: bool = False
    """Hears of rollouts that begin and end. Its latencies are those of beginnings: nobody waits for an end."""
    calls: int
    attempts: int
    retries: int
    failed_calls: int
    """Calls that failed after all retries: each cost a rollout."""
    errors_by_code: dict[FailureCode, int]
    """Failed attempts."""
    error_share: float
    """Of all attempts."""
    rejections_by_status: dict[int, int]
    """Tool calls answered with a 4xx: in training the model reads those, and the rollout goes on."""
    p50_ms: float | None
    """None when nothing was answered."""
    p95_ms: float | None
    p99_ms: float | None
    queued_p95_ms: float
    """How long calls waited in our own queue."""
    answers_per_s: float | None
    peak_in_flight: int
    """Most calls that were inside at once, like the next two fields over all tools behind the same URL."""
    safe_concurrency: int | None
    """Calls at once that it bears; None when nothing was answered."""
    is_limit_found: bool
    """Whether it was driven to its limit; otherwise it may bear more than `safe_concurrency`."""
    example_of_failure: str | None
    """One failed call in words."""


class RehearsalReport(Record):
    """A whole rehearsal."""

    rollouts: int
    excluded_rollouts: int
    """Ended by an endpoint's failure: in training they would teach nothing."""
    excluded_share: float
    unfinished_rollouts: int
    """Broken off when the rehearsal's time was up."""
    unwritten_calls: int
    """Calls left out because no arguments could be made up that fit the tool's schema."""
    missing_tools: tuple[str, ...] = ()
    """Tools that answered 404, 405 or 410 without an `output` to nearly every call: a job would be held at once."""
    wall_s: float
    expected_step_s: float | None
    """What tools and grader take of a training step; None when the burst was not finished."""
    own_delay_p95_ms: float
    """How late the rehearsing process was at its own work; latencies hold up to that much of it."""
    assumptions: tuple[str, ...]
    """What the figures rest on."""
    endpoints: tuple[EndpointReport, ...]
    advice: tuple[str, ...] = ()
    """What to do, most urgent first."""
    limits: tuple[str, ...] = ()
    """What the steps of a job with these endpoints will wait for; empty where too little was answered to tell."""
