"""How fast steps can follow each other, and what keeps them from being faster. Pure.

A step waits for the update, for what its samples cost to compute, for the length of its rollouts, of which
`max_staleness` hides a part behind the steps before it, and for the calls that an endpoint bears. Steps per second are
one over the largest of these.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from rft.core.endpoint_load import EndpointLoad, LimitReason
from rft.core.events import StepDone
from rft.core.hyperparameters import MAX_STALENESS

RECENT_STEPS = 10
WORTH_IT = 0.95
"""A larger staleness is worth its older policies where a step takes at most so much of the time."""


class Bound(StrEnum):
    """What sets the pace."""

    UPDATE = "update"
    """The trainer's own work, evaluations included."""
    COMPUTE = "compute"
    """Samples and updates, computed by the same processors."""
    ROLLOUTS = "rollouts"
    """The time from a rollout's first token to its grade."""
    ENDPOINT = "endpoint"
    """The calls that one endpoint bears at once."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a step takes, each alone, in seconds."""

    update_s: float
    sampling_s: float
    """Computing the samples of all its rollouts, where nothing else is computed."""
    rollouts_s: float
    """From the beginning of its first rollout to the end of its slowest."""
    is_shared: bool = True
    """Samples and updates are computed by the same processors."""
    stalled_s: float = 0.0
    """By so much rollouts are longer beside updates: those that begin while one is computed hardly get to sample."""
    endpoints_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """By endpoint: its calls of a step, so many at once as it bears."""


@dataclass(frozen=True, slots=True)
class EndpointCalls:
    """The calls of a step to one endpoint, and what it bears."""

    endpoint: str
    """As it is called in words."""
    calls: float
    """Of the training rollouts of a step."""
    latency_s: float
    """Mean, from sending a call to its answer: waiting on our side is not in it."""
    queued_s: float = 0.0
    """Mean wait on our side before a call was sent."""
    limit: int | None = None
    """Calls in flight at most, where that is settled."""
    why: str = ""
    """Why no more, in words."""
    rate_limit: float | None = None
    """Calls started per second at most."""

    @property
    def seconds(self) -> float:
        """That the endpoint takes for a step's calls however many wait for it; 0 where nothing limits them."""
        by_limit = self.calls * self.latency_s / self.limit if self.limit else 0.0
        return max(by_limit, self.calls / self.rate_limit if self.rate_limit else 0.0)


_SETTLED = frozenset({LimitReason.SET, LimitReason.ORDERED, LimitReason.SLOWER, LimitReason.REFUSED})
"""Reasons of limits that are ordered, or were found by going beyond them; the others are on their way to one."""


def settled_limit(load: EndpointLoad) -> int | None:
    """Calls that an endpoint bears at once; None while that is only being found out."""
    return load.limit if load.reason in _SETTLED else None


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast steps follow each other."""

    step_s: float
    bound: Bound
    endpoint: str | None = None
    """Whose calls set it."""


def pace(work: StepWork, max_staleness: int) -> Pace:
    """With rollouts of so many further steps under way beside the one that is trained."""
    slowest = max(work.endpoints_s, key=work.endpoints_s.__getitem__, default=None)
    endpoint_s = 0.0 if slowest is None else work.endpoints_s[slowest]
    if max_staleness == 0:
        round_s = max(work.rollouts_s, work.sampling_s, endpoint_s)
        bound = Bound.UPDATE if work.update_s >= round_s else Bound.ROLLOUTS
        if bound is Bound.ROLLOUTS and endpoint_s == round_s:
            return Pace(work.update_s + round_s, Bound.ENDPOINT, slowest)
        return Pace(work.update_s + round_s, bound)
    computed_s = work.update_s + work.sampling_s if work.is_shared else max(work.update_s, work.sampling_s)
    waited_s = (work.rollouts_s + work.stalled_s + work.update_s) / (1 + max_staleness)
    step_s = max(computed_s, waited_s, endpoint_s)
    if step_s == endpoint_s:
        return Pace(step_s, Bound.ENDPOINT, slowest)
    if step_s == computed_s:
        return Pace(step_s, Bound.UPDATE if computed_s == work.update_s else Bound.COMPUTE)
    return Pace(step_s, Bound.ROLLOUTS)


def advised_staleness(work: StepWork, *, most: int = MAX_STALENESS) -> int:
    """The smallest staleness that no larger one, up to `most`, improves much on."""
    best_s = pace(work, most).step_s
    return next(n for n in range(most + 1) if pace(work, n).step_s * WORTH_IT <= best_s)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What one run at `max_staleness` 0 has shown, by rollout, so that another job of the same policy can be told."""

    update_s: float
    """Of the trainer's work, for each rollout of a step."""
    sampling_s: float
    """Of computing its samples."""
    calls: float
    """Tool calls, one after the other."""
    calls_of_slowest: float
    """Of the rollout of a step that makes the most."""
    is_shared: bool = True
    """Samples and updates are computed by the same processors: then a step's rollouts, which begin with an update
    beside them as soon as there are several steps under way, stand still until it is over."""

    def work(self, rollouts: int, latency_s: float, limit: int | None = None) -> StepWork:
        """Of steps of so many rollouts, with a tool that takes so long for a call and bears so many at once."""
        calls = EndpointCalls("tool", self.calls * rollouts, latency_s, limit=limit)
        sampling_s, update_s = self.sampling_s * rollouts, self.update_s * rollouts
        return StepWork(
            update_s=update_s,
            sampling_s=sampling_s,
            rollouts_s=sampling_s + self.calls_of_slowest * latency_s,
            is_shared=self.is_shared,
            stalled_s=update_s if self.is_shared else 0.0,
            endpoints_s={calls.endpoint: calls.seconds} if limit else {},
        )


def work_of(
    records: Sequence[StepDone], calls: Iterable[EndpointCalls] = (), *, is_shared: bool = True
) -> StepWork | None:
    """As the last steps show it; None where too little is known.

    Rollouts beside updates hide how long they took: then it is that of the slower ones, stalls included, and of what
    samples cost nothing is known. `calls`: to each endpoint; what rollouts waited for their turn there is no part of
    their length. `is_shared`: samples and updates are computed by the same processors; then updates stall rollouts that
    begin beside them.
    """
    recent = recent_updates(records)
    if not recent:
        return None
    is_hidden = any(record.optimization is not None and record.optimization.staleness_max for record in recent)
    slow = [record.train.rollout_latency_p95_s for record in recent if record.train is not None]
    timings = [record.timing for record in recent]
    rounds_s = [one.sampling_s + one.tools_s + one.grading_s for one in timings]
    if is_hidden:
        rounds_s = [seconds for seconds in slow if seconds is not None]
    if not rounds_s:
        return None
    rollouts, called = fmean(record.train.rollouts for record in recent if record.train is not None), list(calls)
    queued_s = sum(one.calls * one.queued_s for one in called) / max(1.0, rollouts)
    return StepWork(
        update_s=fmean(one.training_s + one.eval_s for one in timings),
        sampling_s=0.0 if is_hidden else fmean(one.sampling_s for one in timings),
        rollouts_s=max(0.0, fmean(rounds_s) - queued_s),
        is_shared=is_shared,
        stalled_s=fmean(one.training_s for one in timings) if is_shared and not is_hidden else 0.0,
        endpoints_s={one.endpoint: one.seconds for one in called if one.seconds},
    )


def recent_updates(records: Sequence[StepDone]) -> Sequence[StepDone]:
    """The last steps that were trained on."""
    return [one for one in records if one.train is not None and one.optimization is not None][-RECENT_STEPS:]
