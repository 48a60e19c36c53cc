"""From the rollouts and attempts of a rehearsal to its figures. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rft.core.attempt import Attempt
from rft.core.failure import Failure, Stage
from rft.core.graders import endpoint_graders
from rft.core.rollout import Rollout
from rft.core.spec import RunSpec
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


class _Place(NamedTuple):
    """One endpoint of the rehearsal, told from the others."""

    stage: Stage
    name: str
    is_callback: bool = False


def to_report(plan: RehearsalPlan, spec: RunSpec, measured: Measured) -> RehearsalReport:
    """The figures, still without assumptions and advice."""
    places, own_delay_s = _places(spec), percentile(measured.own_delays_s, 0.95) or 0.0
    made, failures = defaultdict[_Place, list[Attempt]](list), defaultdict[_Place, list[Failure]](list)
    by_url = defaultdict[str, list[Attempt]](list)
    for attempt in measured.attempts:
        place = _Place(attempt.stage, attempt.endpoint, attempt.call_id in (STARTED, ENDED))
        made[place].append(attempt)
        by_url[endpoint_key(places[place])].append(attempt)
    for rollout in measured.rollouts:
        if isinstance(failure := rollout.outcome, Failure):
            # Where no turn was sampled yet, it was not a tool call that failed.
            is_callback = failure.stage is Stage.TOOL and not rollout.trace.turns
            failures[_Place(failure.stage, failure.endpoint or "", is_callback)].append(failure)
    finished, excluded = len(measured.rollouts), sum(map(len, failures.values()))
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
            _endpoint(place, url, made[place], failures[place], capacity_of(by_url[endpoint_key(url)], own_delay_s))
            for place, url in places.items()
        ),
    )


def _places(spec: RunSpec) -> dict[_Place, str]:
    """With their URLs. Tools that share a callback URL hear of a rollout once, and it is the first one's."""
    told = {tool.callback_url: tool.name for tool in reversed(spec.tools)}
    return {
        **{_Place(Stage.TOOL, tool.name): tool.server_url for tool in spec.tools},
        **{_Place(Stage.TOOL, name, is_callback=True): url for url, name in reversed(told.items()) if url is not None},
        **{_Place(Stage.GRADER, part or only.name): only.url for part, only in endpoint_graders(spec.grader)},
    }


def _endpoint(
    place: _Place, url: str, attempts: Sequence[Attempt], failures: Sequence[Failure], capacity: Capacity
) -> EndpointReport:
    answered = [attempt for attempt in attempts if attempt.code is None]
    errors = Counter(attempt.code for attempt in attempts if attempt.code is not None)
    rejections = Counter(attempt.status for attempt in answered if attempt.status is not None and attempt.status >= 400)
    # An end is told in the background.
    latencies_s = [attempt.latency_s for attempt in answered if attempt.call_id != ENDED]
    calls = len({(attempt.trace_id, attempt.call_id) for attempt in attempts})
    return EndpointReport(
        stage=place.stage,
        name=f"{place.name} (rollout callback)" if place.is_callback else place.name,
        url=public_url(url),
        is_callback=place.is_callback,
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
