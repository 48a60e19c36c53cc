"""What will limit a job with the endpoints of a rehearsal, by the model of its pace. Pure.

A rehearsal knows nothing of the model: an update's length is somebody else's to say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rft.core.failure import Stage
from rft.core.pacing import EndpointCalls, StepWork, advised_staleness
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan, RehearsalReport

MOST_AUTO_STALENESS = 4
"""What `max_staleness: "auto"` becomes at most: older policies teach too little per step."""
ASSUMED_UPDATE_S = 10.0
"""Where no job of the model has told how long its updates take."""


@dataclass(frozen=True, slots=True)
class RehearsedPace:
    """What endpoints take of a step."""

    rollout_s: float
    """One rollout's calls and its grade, one after the other, each as slow as the slowest in twenty."""
    endpoints: tuple[EndpointCalls, ...]
    """Those that were driven to their limit."""

    def auto_staleness(self, update_s: float) -> int:
        """What `max_staleness: "auto"` becomes: more than 1 where rollouts are longer than updates, and it helps."""
        work = StepWork(
            update_s=update_s,
            sampling_s=0.0,
            rollouts_s=self.rollout_s,
            endpoints_s={one.endpoint: one.seconds for one in self.endpoints},
        )
        return max(1, advised_staleness(work, most=MOST_AUTO_STALENESS))


def rehearsed_pace(report: RehearsalReport, plan: RehearsalPlan, *, rollouts: int) -> RehearsedPace | None:
    """For steps of so many rollouts; None where too little was answered to tell."""
    answered = [one for one in report.endpoints if one.p50_ms is not None and one.p95_ms is not None]
    if not answered or report.unfinished_rollouts:
        return None
    tools = [one for one in answered if one.stage is Stage.TOOL]
    calls = sum(one.calls for one in tools)
    tool_s = sum(one.calls * (one.p95_ms or 0.0) for one in tools) / max(1, calls) / 1e3
    grade_s = max((one.p95_ms or 0.0 for one in answered if one.stage is Stage.GRADER), default=0.0) / 1e3
    return RehearsedPace(
        rollout_s=(plan.calls_per_rollout * tool_s if tools else 0.0) + grade_s,
        endpoints=tuple(_crowded(answered, rollouts / max(1, report.rollouts))),
    )


def _crowded(answered: Sequence[EndpointReport], share: float) -> Iterator[EndpointCalls]:
    """One for each URL that found its limit; `share`: of the rehearsed calls that a step makes."""
    by_url: dict[str, list[EndpointReport]] = {}
    for one in answered:
        if one.is_limit_found and one.safe_concurrency is not None:
            by_url.setdefault(one.url, []).append(one)
    for reports in by_url.values():
        calls = sum(one.calls for one in reports)
        yield EndpointCalls(
            endpoint=" and ".join(f"{one.stage} '{one.name}'" for one in reports),
            calls=calls * share,
            latency_s=sum(one.calls * (one.p50_ms or 0.0) for one in reports) / max(1, calls) / 1e3,
            limit=reports[0].safe_concurrency,
        )


def limits(report: RehearsalReport, plan: RehearsalPlan) -> tuple[str, ...]:
    """What a job's steps will wait for, in words."""
    found = rehearsed_pace(report, plan, rollouts=plan.burst)
    if found is None:
        return ()
    told = [
        f"A step takes at least {one.seconds:.1f} s for its {one.calls:.0f} calls of {one.endpoint},"
        f" {one.limit} at once: neither a second GPU nor a larger max_staleness changes that."
        for one in found.endpoints
        if one.seconds > found.rollout_s
    ]
    auto = found.auto_staleness(ASSUMED_UPDATE_S)
    told.append(
        f"Tools and grader take about {found.rollout_s:.1f} s of a rollout; while that is less than the update takes,"
        f' samples and updates are what a step waits for. max_staleness "auto" is {auto} where an update takes'
        f" {ASSUMED_UPDATE_S:.0f} s."
    )
    return tuple(told)
