"""From the rollouts and attempts of a rehearsal to its figures. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.attempt import Attempt
from rft.core.failure import Failure, Stage
from rft.core.graders import EndpointGrader
from rft.core.rollout import Rollout
from rft.core.spec import ToolServer
from rft.egress.endpoint import endpoint_key, public_url
from rft.rollouts.missing_tools import missing_tools
from rft.rollouts.rehearsal_capacity import Capacity, capacity_of
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan, RehearsalReport
from rft.rollouts.stats import percentile
from rft.tool_gateway.callbacks import ENDED, STARTED


@dataclass(frozen=True, slots=True)
class Measured:
    """What a burst came to."""

    rollouts: Sequence[Rollout]
    """Those that ended."""
    attempts: Sequence[Attempt]
    unwritten_calls: int
    wall_s: float
    own_delays_s: Sequence[float]
    """How late this process was at its own work, again and again."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One endpoint of the rehearsal, and what tells its attempts and failures from those of others."""

    stage: Stage
    name: str
    url: str
    is_callback: bool = False

    def made(self, attempt: Attempt) -> bool:
        """Whether the attempt was one at this endpoint."""
        is_callback = attempt.call_id in (STARTED, ENDED)
        return (attempt.stage, attempt.endpoint, is_callback) == (self.stage, self.name, self.is_callback)

    def failure_of(self, rollout: Rollout) -> Failure | None:
        """The failure of this endpoint that the rollout ended in."""
        failure = rollout.outcome
        if not isinstance(failure, Failure) or (failure.stage, failure.endpoint) != (self.stage, self.name):
            return None
        # No turn was sampled yet: it was not a tool call that failed.
        is_callback = failure.stage is Stage.TOOL and not rollout.trace.turns
        return failure if is_callback is self.is_callback else None


def to_report(
    plan: RehearsalPlan, tools: Sequence[ToolServer], graders: Sequence[EndpointGrader], measured: Measured
) -> RehearsalReport:
    """The figures, still without assumptions and advice."""
    places, own_delay_s = _places(tools, graders), percentile(measured.own_delays_s, 0.95) or 0.0
    made = {place: [attempt for attempt in measured.attempts if place.made(attempt)] for place in places}
    together = defaultdict[str, list[Attempt]](list)
    for place, attempts in made.items():
        together[endpoint_key(place.url)].extend(attempts)
    capacities = {key: capacity_of(attempts, own_delay_s=own_delay_s) for key, attempts in together.items()}
    finished = len(measured.rollouts)
    excluded = sum(isinstance(rollout.outcome, Failure) for rollout in measured.rollouts)
    return RehearsalReport(
        rollouts=plan.rollouts,
        excluded_rollouts=excluded,
        excluded_share=excluded / max(1, finished),
        unfinished_rollouts=plan.rollouts - finished,
        unwritten_calls=measured.unwritten_calls,
        missing_tools=tuple(sorted(missing_tools(measured.rollouts, bearable=0.0))),
        wall_s=measured.wall_s,
        expected_step_s=(measured.wall_s * max(1.0, plan.burst / plan.rollouts) if finished == plan.rollouts else None),
        own_delay_p95_ms=_ms(own_delay_s) or 0.0,
        assumptions=(),
        endpoints=tuple(
            _endpoint(place, attempts, measured.rollouts, capacities[endpoint_key(place.url)])
            for place, attempts in made.items()
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


def _endpoint(
    place: _Place, attempts: Sequence[Attempt], rollouts: Sequence[Rollout], capacity: Capacity
) -> EndpointReport:
    answered = [attempt for attempt in attempts if attempt.code is None]
    errors = Counter(attempt.code for attempt in attempts if attempt.code is not None)
    rejections = Counter(attempt.status for attempt in answered if attempt.status is not None and attempt.status >= 400)
    latencies_s = [attempt.latency_s for attempt in answered]
    calls = len({(attempt.trace_id, attempt.call_id) for attempt in attempts})
    failures = [failure for rollout in rollouts if (failure := place.failure_of(rollout)) is not None]
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
        rejections_by_status=dict(rejections.most_common()),
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


def _rate(answered: Sequence[Attempt]) -> float | None:
    """Answers per second, from the first call sent to the last answer."""
    if not answered:
        return None
    span_s = max(attempt.at for attempt in answered) - min(attempt.at - attempt.latency_s for attempt in answered)
    return len(answered) / max(span_s, 1e-3)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)
