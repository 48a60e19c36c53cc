"""What will limit a job with the endpoints of a rehearsal, by the model of its pace. Pure.

A rehearsal knows nothing of the model: an update's length is somebody else's to say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rft.core.failure import Stage
from rft.core.graders import endpoint_graders
from rft.core.pacing import EndpointCalls, StepWork, advised_staleness
from rft.core.spec import RunSpec
from rft.egress.endpoint import public_url
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan, RehearsalReport

MOST_AUTO_STALENESS = 4
"""What `max_staleness: "auto"` becomes at most: older policies teach too little per step."""
ASSUMED_UPDATE_S = 10.0
"""Where no job of the model has told how long its updates take."""


@dataclass(frozen=True, slots=True)
class OrderedCaps:
    """What an order allows at one address, whatever it bears: the strictest of all that call there."""

    max_concurrency: int | None = None
    rate_limit: float | None = None


CapsByUrl = Mapping[str, OrderedCaps]
"""By address, as reports have it."""


def caps_by_url(ordered: Iterable[tuple[str, int | None, float | None]]) -> CapsByUrl:
    """`ordered`: the address of each tool and grader, and its two caps."""
    caps: dict[str, OrderedCaps] = {}
    for url, max_concurrency, rate_limit in ordered:
        known = caps.get(public_url(url), OrderedCaps())
        caps[public_url(url)] = OrderedCaps(
            min((cap for cap in (known.max_concurrency, max_concurrency) if cap is not None), default=None),
            min((cap for cap in (known.rate_limit, rate_limit) if cap is not None), default=None),
        )
    return caps


def caps_of(spec: RunSpec) -> CapsByUrl:
    """As a run is told of them."""
    graders = (grader for _, grader in endpoint_graders(spec.grader))
    return caps_by_url(
        [
            *((tool.server_url, tool.max_concurrency, tool.rate_limit) for tool in spec.tools),
            *((grader.url, grader.max_concurrency, grader.rate_limit) for grader in graders),
        ]
    )


@dataclass(frozen=True, slots=True)
class RehearsedPace:
    """What endpoints take of a step."""

    rollout_s: float
    """The callback before one rollout, its calls and its grade, one after the other, each as slow as the slowest in
    twenty."""
    endpoints: tuple[EndpointCalls, ...]
    """Those that were driven to their limit, or that the order caps."""

    def auto_staleness(self, update_s: float) -> int:
        """What `max_staleness: "auto"` becomes: more than 1 where rollouts are longer than updates, and it helps."""
        work = StepWork(
            update_s=update_s,
            sampling_s=0.0,
            rollouts_s=self.rollout_s,
            endpoints_s={one.endpoint: one.seconds for one in self.endpoints},
        )
        return max(1, advised_staleness(work, most=MOST_AUTO_STALENESS))


def rehearsed_pace(
    report: RehearsalReport, plan: RehearsalPlan, *, rollouts: int, caps: CapsByUrl
) -> RehearsedPace | None:
    """For steps of so many rollouts with these caps; None where too little was answered to tell."""
    answered = [one for one in report.endpoints if one.p50_ms is not None and one.p95_ms is not None]
    if not answered or report.unfinished_rollouts:
        return None
    tools = [one for one in answered if one.stage is Stage.TOOL and not one.is_callback]
    calls = sum(one.calls for one in tools)
    tool_s = sum(one.calls * (one.p95_ms or 0.0) for one in tools) / max(1, calls) / 1e3
    grade_s = max((one.p95_ms or 0.0 for one in answered if one.stage is Stage.GRADER), default=0.0) / 1e3
    # All callbacks are told at once, before the first sample.
    begin_s = max((one.p95_ms or 0.0 for one in answered if one.is_callback), default=0.0) / 1e3
    return RehearsedPace(
        rollout_s=begin_s + (plan.calls_per_rollout * tool_s if tools else 0.0) + grade_s,
        endpoints=tuple(_crowded(answered, rollouts / max(1, report.rollouts), caps)),
    )


def _crowded(answered: Sequence[EndpointReport], share: float, caps: CapsByUrl) -> Iterator[EndpointCalls]:
    """One for each URL that found its limit or has one; `share`: of the rehearsed calls that a step makes."""
    by_url: dict[str, list[EndpointReport]] = {}
    for one in answered:
        by_url.setdefault(one.url, []).append(one)
    for url, reports in by_url.items():
        calls = sum(map(_awaited_calls, reports))
        found = reports[0].safe_concurrency if reports[0].is_limit_found else None
        cap = caps.get(url, OrderedCaps())
        limit, why = found, ""
        if cap.max_concurrency is not None and (found is None or cap.max_concurrency < found):
            limit, why = cap.max_concurrency, "max_concurrency"
        one = EndpointCalls(
            endpoint=" and ".join(f"{one.stage} '{one.name}'" for one in reports),
            calls=calls * share,
            latency_s=sum(_awaited_calls(one) * (one.p50_ms or 0.0) for one in reports) / max(1, calls) / 1e3,
            limit=limit,
            why=why,
            rate_limit=cap.rate_limit,
        )
        if one.seconds:
            yield one


def _awaited_calls(one: EndpointReport) -> float:
    """A callback hears of as many ends as beginnings, and no rollout waits for an end."""
    return one.calls / 2 if one.is_callback else one.calls


def limits(report: RehearsalReport, plan: RehearsalPlan, caps: CapsByUrl) -> tuple[str, ...]:
    """What a job's steps will wait for, in words."""
    found = rehearsed_pace(report, plan, rollouts=plan.burst, caps=caps)
    if found is None:
        return ()
    told = [
        f"A step takes at least {one.seconds:.1f} s for its {one.calls:.0f} calls of {one.endpoint},"
        f" {_bound(one)}neither a second GPU nor a larger max_staleness changes that."
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


def _bound(one: EndpointCalls) -> str:
    """What keeps its calls, and what would change that."""
    by_limit_s = one.calls * one.latency_s / one.limit if one.limit else 0.0
    if one.seconds > by_limit_s:
        return f"{one.rate_limit:g} a second as its rate_limit has it: raise that if it bears more; "
    if one.why:
        return f"{one.limit} at once as its {one.why} has it: raise that if it bears more; "
    return f"{one.limit} at once: "
