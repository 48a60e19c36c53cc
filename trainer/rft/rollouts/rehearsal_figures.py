"""From the attempts of a rehearsal to its figures. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from rft.core.attempt import Attempt
from rft.core.failure import Failure, Stage
from rft.core.graders import EndpointGrader
from rft.core.spec import ToolServer
from rft.egress.endpoint import endpoint_key, public_url
from rft.rollouts.missing_tools import NEARLY_ALL
from rft.rollouts.rehearsal_capacity import Capacity, capacity_of
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan, RehearsalReport
from rft.rollouts.stats import percentile
from rft.tool_gateway.callbacks import ENDED, STARTED


@dataclass(slots=True)
class Seen:
    """What a burst's rollouts came to."""

    finished: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])
    """Of tools and graders."""
    callback_failures: list[Failure] = field(default_factory=list[Failure])
    unwritten_calls: int = 0
    answered: Counter[str] = field(default_factory=Counter[str])
    """Calls that brought something for a model to read, by tool."""
    not_found: Counter[str] = field(default_factory=Counter[str])
    """Those of them that were answered as if the tool were not there."""
    wall_s: float = 0.0
    own_delays_s: list[float] = field(default_factory=list[float])
    """How late this process was at its own work, again and again."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One endpoint of the rehearsal, and what tells its attempts from those of others."""

    stage: Stage
    name: str
    url: str
    is_callback: bool = False

    def made(self, attempt: Attempt) -> bool:
        """Whether the attempt was one at this endpoint."""
        is_callback = attempt.call_id in (STARTED, ENDED)
        return (attempt.stage, attempt.endpoint, is_callback) == (self.stage, self.name, self.is_callback)


def to_report(
    plan: RehearsalPlan,
    tools: Sequence[ToolServer],
    graders: Sequence[EndpointGrader],
    seen: Seen,
    attempts: Sequence[Attempt],
) -> RehearsalReport:
    """The figures, still without assumptions and advice."""
    made = {place: [attempt for attempt in attempts if place.made(attempt)] for place in _places(tools, graders)}
    shared: defaultdict[str, list[Attempt]] = defaultdict(list)
    for place, its in made.items():
        shared[endpoint_key(place.url)].extend(its)
    own_delay_s = percentile(seen.own_delays_s, 0.95) or 0.0
    capacities = {key: capacity_of(together, own_delay_s=own_delay_s) for key, together in shared.items()}
    unfinished = plan.rollouts - seen.finished
    excluded = len(seen.failures) + len(seen.callback_failures)
    return RehearsalReport(
        rollouts=plan.rollouts,
        excluded_rollouts=excluded,
        excluded_share=excluded / max(1, seen.finished),
        unfinished_rollouts=unfinished,
        unwritten_calls=seen.unwritten_calls,
        missing_tools=tuple(
            sorted(name for name, count in seen.not_found.items() if count > NEARLY_ALL * seen.answered[name])
        ),
        wall_s=seen.wall_s,
        expected_step_s=None if unfinished else seen.wall_s * max(1.0, plan.burst / plan.rollouts),
        own_delay_p95_ms=_ms(own_delay_s) or 0.0,
        assumptions=(),
        endpoints=tuple(
            _endpoint(place, its, seen, capacities[endpoint_key(place.url)]) for place, its in made.items()
        ),
    )


def _places(tools: Sequence[ToolServer], graders: Sequence[EndpointGrader]) -> list[_Place]:
    callbacks = {
        tool.callback_url: _Place(Stage.TOOL, tool.name, tool.callback_url, is_callback=True)
        for tool in reversed(tools)
        if tool.callback_url is not None
    }
    return [
        *(_Place(Stage.TOOL, tool.name, tool.server_url) for tool in tools),
        *callbacks.values(),
        *(_Place(Stage.GRADER, grader.name, grader.url) for grader in graders),
    ]


def _endpoint(place: _Place, attempts: Sequence[Attempt], seen: Seen, capacity: Capacity) -> EndpointReport:
    answered = [attempt for attempt in attempts if attempt.code is None]
    errors = Counter(attempt.code for attempt in attempts if attempt.code is not None)
    latencies_s = [attempt.latency_s for attempt in answered]
    calls = len({(attempt.trace_id, attempt.call_id) for attempt in attempts})
    failures = [
        failure
        for failure in (seen.callback_failures if place.is_callback else seen.failures)
        if (failure.stage, failure.endpoint) == (place.stage, place.name)
    ]
    return EndpointReport(
        stage=place.stage,
        name=f"{place.name} (rollout callback)" if place.is_callback else place.name,
        url=public_url(place.url),
        calls=calls,
        attempts=len(attempts),
        retries=len(attempts) - calls,
        failed_calls=len(failures),
        errors_by_code=dict(errors.most_common()),
        error_share=errors.total() / max(1, len(attempts)),
        rejections_by_status=_rejections(answered),
        p50_ms=_ms(percentile(latencies_s, 0.50)),
        p95_ms=_ms(percentile(latencies_s, 0.95)),
        p99_ms=_ms(percentile(latencies_s, 0.99)),
        queued_p95_ms=_ms(percentile([attempt.queued_s for attempt in attempts], 0.95)) or 0.0,
        answers_per_s=_rate(answered),
        peak_in_flight=capacity.peak_in_flight,
        safe_concurrency=capacity.safe_concurrency,
        is_limit_found=capacity.is_limit_found,
        example_of_failure=failures[0].message if failures else None,
    )


def _rejections(answered: Sequence[Attempt]) -> dict[int, int]:
    statuses = Counter(attempt.status for attempt in answered if attempt.status is not None and attempt.status >= 400)
    return dict(statuses.most_common())


def _rate(answered: Sequence[Attempt]) -> float | None:
    """Answers per second, from the first call sent to the last answer."""
    if not answered:
        return None
    span_s = max(attempt.at for attempt in answered) - min(attempt.at - attempt.latency_s for attempt in answered)
    return len(answered) / max(span_s, 1e-3)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)
