"""A rehearsal's figures in words that a customer can act on. Pure: one small function per rule."""

from collections.abc import Iterator, Sequence
from math import floor, log10

from rft.core.failure import FailureCode, Stage
from rft.core.graders import GraderSpec, endpoint_graders
from rft.rollouts.rehearsal_pace import CapsByUrl, OrderedCaps
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan, RehearsalReport

_HELD_ABOVE = 0.25
"""Share of excluded rollouts above which training waits instead of using what is left of a step."""
_SLOW_MS = 2_000.0
_FEW_ERRORS = 0.005
_MANY_REJECTIONS = 0.2
_WAITING_MS = 1_000.0
_BUSY_MS = 50.0
_EXPECTED_TOOL, _EXPECTED_GRADER = '{"output": "..."}', '{"score": 0.5}'
_UNREACHABLE = {
    FailureCode.CONNECT_ERROR: "could not be reached: check that it runs, its address and its port",
    FailureCode.TLS_ERROR: "could not be reached securely: check its certificate",
    FailureCode.BLOCKED_ADDRESS: "may not be called from here: only public https addresses are open;"
    " private networks are allowed with RFT_ALLOW_CIDRS",
    FailureCode.UNEXPECTED_STATUS: "did not answer but redirected: register its final URL",
    FailureCode.UNAUTHORIZED: "answered 401, 403 or 407: check its headers",
    FailureCode.REJECTED: "rejected calls with a 4xx: check its URL, its headers and what it expects",
    FailureCode.OVERSIZE_REQUEST: "could not be sent some calls: the rows are too large for one request",
    FailureCode.OVERSIZE_REPLY: "answered with more than a call may carry: shorten its replies",
}
_UNDER_LOAD = {
    FailureCode.SERVER_ERROR: "answered 5xx",
    FailureCode.TIMEOUT: "gave no answer in time",
    FailureCode.CONNECTION_RESET: "broke the connection",
}


def assumptions(report: RehearsalReport, plan: RehearsalPlan, grader: GraderSpec, caps: CapsByUrl) -> Iterator[str]:
    """What the figures rest on."""
    yield f"Each rollout makes {plan.calls_per_rollout} tool calls one after the other; a real policy may make more."
    yield "The time a model needs to sample is not included."
    yield "Arguments are made up from the rows, so answers may be faster or slower than those to a real policy."
    if plan.rollouts < plan.burst:
        yield f"{plan.rollouts} of the step's {plan.burst} rollouts were played, and the step time scaled up."
    if not endpoint_graders(grader):
        yield f"Grader '{grader.name}' ({grader.type}) was not called: it is not behind a URL of yours."
    for endpoint in report.endpoints:
        if _is_free_but_waited_for(endpoint) and not _binding(endpoint, caps):
            yield (
                f"Calls to {_name(endpoint)} waited up to {endpoint.queued_p95_ms / 1e3:.1f} s because we begin with"
                " few at once while it is not known what it bears. The step time has that in it; later steps of a job"
                " wait less."
            )
    if report.own_delay_p95_ms >= _BUSY_MS:
        yield (
            f"The machine that rehearsed was busy itself: latencies hold up to {report.own_delay_p95_ms:.0f} ms of"
            " its own delay, so your endpoints may be faster than they look."
        )


def advise(report: RehearsalReport, plan: RehearsalPlan, caps: CapsByUrl) -> tuple[str, ...]:
    """What to do, most urgent first. `caps`: what the order allows at each address."""
    said = [
        *_about_rollouts(report, plan),
        *_about_missing_tools(report),
        *(sentence for endpoint in report.endpoints for sentence in _about_errors(endpoint, report.endpoints)),
        *(sentence for endpoint in report.endpoints for sentence in _about_rejections(endpoint)),
        *_about_capacity(report.endpoints, plan),
        *(sentence for endpoint in report.endpoints for sentence in _about_latency(endpoint, plan)),
        *(sentence for endpoint in report.endpoints for sentence in _about_waiting(endpoint, caps)),
        *_about_calls(report, plan),
    ]
    return tuple(said) or (_ready(report, plan),)


def _ready(report: RehearsalReport, plan: RehearsalPlan) -> str:
    played = (
        f"the step's burst of {plan.burst} rollouts" if plan.rollouts == plan.burst else f"{plan.rollouts} rollouts"
    )
    errors = sum(sum(one.errors_by_code.values()) for one in report.endpoints)
    rejections = sum(sum(one.rejections_by_status.values()) for one in report.endpoints)
    if not errors and not rejections:
        return f"Ready: {played} went through without an error in {report.wall_s:.1f} s."
    told = [f"Attempts: {sum(one.attempts for one in report.endpoints)}"]
    told += [f"failed and made again: {errors}"] if errors else []
    told += [f"answered with a 4xx, which a model would read: {rejections}"] if rejections else []
    return f"Ready: {played} went through in {report.wall_s:.1f} s. {'; '.join(told)}."


def _about_rollouts(report: RehearsalReport, plan: RehearsalPlan) -> Iterator[str]:
    if report.unfinished_rollouts:
        yield (
            f"{report.unfinished_rollouts} of {report.rollouts} rollouts were not finished after {plan.max_s:.0f} s:"
            " a training step would take longer still. Make the endpoints faster or the burst smaller"
            " (batch_size, compute_multiplier)."
        )
    if report.excluded_share > _HELD_ABOVE:
        yield (
            f"{_percent(report.excluded_share)} of the rollouts ended in an endpoint's failure:"
            " training would be held until that is mended."
        )
    elif report.excluded_rollouts:
        yield (
            f"{_percent(report.excluded_share)} of the rollouts ended in an endpoint's failure and would teach nothing:"
            " mend what is named below."
        )


def _about_missing_tools(report: RehearsalReport) -> Iterator[str]:
    for name in report.missing_tools:
        yield (
            f"The tool {name} seems not to be there: a job would be held at its first step. Correct its `server_url`,"
            " or, where it means what it says, let it give these replies an `output`."
        )


def _about_errors(endpoint: EndpointReport, endpoints: Sequence[EndpointReport]) -> Iterator[str]:
    name = _name(endpoint)
    relief = _cap(endpoint) if _can_be_capped(endpoint, endpoints) else "order a smaller burst"
    for code, count in endpoint.errors_by_code.items():
        share = count / endpoint.attempts
        if share < _FEW_ERRORS and not endpoint.failed_calls:
            continue
        if code is FailureCode.RATE_LIMITED:
            yield f"{name} answered 429 to {_percent(share)} of calls: {relief} or add capacity."
        elif code in _UNDER_LOAD:
            remedy = f"{relief} or add capacity" if endpoint.is_limit_found else "look into its log"
            yield f"{name} {_UNDER_LOAD[code]} in {_percent(share)} of calls: {remedy}."
        elif code in _UNREACHABLE:
            yield f"{name} {_UNREACHABLE[code]} ({_percent(share)} of calls)."
        elif code is FailureCode.INVALID_REPLY:
            yield (
                f"{name} answered {_percent(share)} of calls with something else than JSON like"
                f" {_EXPECTED_GRADER if endpoint.stage is Stage.GRADER else _EXPECTED_TOOL}: mend its replies."
            )
        elif code is FailureCode.INVALID_SCORE:
            yield (
                f"{name} answered {_percent(share)} of calls with something else than a finite number"
                f" like {_EXPECTED_GRADER}: mend its replies."
            )
        else:
            yield f"{name} failed with {code} in {_percent(share)} of calls."
    if endpoint.example_of_failure is not None:
        yield f"For example: {endpoint.example_of_failure.rstrip('.')}."


def _about_rejections(endpoint: EndpointReport) -> Iterator[str]:
    for status, count in endpoint.rejections_by_status.items():
        share = count / endpoint.attempts
        if status in (401, 403):
            yield f"{_name(endpoint)} answered {status} to {_percent(share)} of calls: check its headers."
        elif status in (404, 405, 410) and share > _MANY_REJECTIONS:
            yield f"{_name(endpoint)} answered {status} to {_percent(share)} of calls: check its URL."
        elif share > _MANY_REJECTIONS:
            yield (
                f"{_name(endpoint)} answered {status} to {_percent(share)} of calls. The arguments were made up, so"
                " this may be right; in training the model would read these errors."
            )


def _about_capacity(endpoints: Sequence[EndpointReport], plan: RehearsalPlan) -> Iterator[str]:
    """One sentence per URL: tools behind the same one share its capacity."""
    told: set[str] = set()
    for endpoint in endpoints:
        safe = endpoint.safe_concurrency
        if endpoint.url in told or not endpoint.is_limit_found or safe is None or safe >= plan.burst:
            continue
        told.add(endpoint.url)
        names = [_name(other) for other in endpoints if other.url == endpoint.url]
        bear = "bears" if len(names) == 1 else "together bear"
        remedy = (
            f"Set max_concurrency to {safe}, or add capacity for a faster step."
            if _can_be_capped(endpoint, endpoints)
            else "Add capacity for a faster step, or order a smaller burst (batch_size, compute_multiplier)."
        )
        yield (
            f"{' and '.join(names)} {bear} about {safe} calls at once and a step starts {plan.burst} rollouts:"
            f" further calls only wait. {remedy}"
        )


def _about_latency(endpoint: EndpointReport, plan: RehearsalPlan) -> Iterator[str]:
    if endpoint.p95_ms is None or endpoint.p95_ms < _SLOW_MS:
        return
    p95_s, times = endpoint.p95_ms / 1e3, 1
    if endpoint.is_callback:
        which, when = "", " before its first sample"
    elif endpoint.stage is Stage.TOOL:
        times = max(1, plan.calls_per_rollout)
        which, when = f" with {f'{times} such calls in a row' if times > 1 else 'one such call'}", ""
    else:
        which, when = " with a grade", ""
    yield (
        f"{_name(endpoint)} has a p95 of {p95_s:.1f} s: a rollout{which} waits {times * p95_s:.0f} s for it{when},"
        " and the step waits for its slowest rollout."
    )


def _about_waiting(endpoint: EndpointReport, caps: CapsByUrl) -> Iterator[str]:
    binding = _binding(endpoint, caps)
    if binding and _is_free_but_waited_for(endpoint):
        yield (
            f"Calls to {_name(endpoint)} waited up to {endpoint.queued_p95_ms / 1e3:.1f} s on our side for their turn:"
            f" if it bears more, raise its {' or '.join(binding)}."
        )


def _is_free_but_waited_for(endpoint: EndpointReport) -> bool:
    is_free = not endpoint.is_limit_found and not endpoint.errors_by_code
    return is_free and endpoint.queued_p95_ms >= _WAITING_MS


def _binding(endpoint: EndpointReport, caps: CapsByUrl) -> list[str]:
    """The caps of the order that calls can have waited for: we ourselves let few in at first, too."""
    cap = caps.get(endpoint.url, OrderedCaps())
    is_full = cap.max_concurrency is not None and endpoint.peak_in_flight >= cap.max_concurrency
    return [*(["rate_limit"] if cap.rate_limit is not None else []), *(["max_concurrency"] if is_full else [])]


def _about_calls(report: RehearsalReport, plan: RehearsalPlan) -> Iterator[str]:
    if report.unwritten_calls:
        yield (
            f"{report.unwritten_calls} calls were left out because no arguments could be made up that fit the tool's"
            " schema; those tools were rehearsed less than planned."
        )
    for endpoint in report.endpoints:
        is_tool = endpoint.stage is Stage.TOOL and not endpoint.is_callback
        if is_tool and not endpoint.calls and plan.calls_per_rollout:
            # Turns go around a row's tools: fewer calls than tools leave some out, and so do rollouts that end early.
            why = (
                "no arguments could be made up for it"
                if report.unwritten_calls
                else f"the {plan.calls_per_rollout} calls of each rollout went to other tools (calls_per_rollout)"
            )
            yield f"{_name(endpoint)} was never called: no row of this rehearsal describes it, or {why}."


def _can_be_capped(endpoint: EndpointReport, endpoints: Sequence[EndpointReport]) -> bool:
    """Callbacks have no caps of their own, but those of a tool or grader at their address."""
    return any(other.url == endpoint.url and not other.is_callback for other in endpoints)


def _cap(endpoint: EndpointReport) -> str:
    """The gentlest cap that the figures speak for."""
    if endpoint.is_limit_found and endpoint.safe_concurrency is not None:
        return f"set max_concurrency to about {endpoint.safe_concurrency}"
    if endpoint.answers_per_s is not None:
        return f"set rate_limit to about {_round_down(endpoint.answers_per_s)}/s"
    return "set a rate_limit that it bears"


def _round_down(rate: float) -> str:
    if rate >= 1.0:
        return f"{int(rate)}"
    places = 1 - floor(log10(rate))  # Two digits that say something.
    return f"{floor(rate * 10**places) / 10**places:.{places}f}"


def _percent(share: float) -> str:
    return "under 1%" if share < 0.01 else "over 99%" if 0.99 < share < 1.0 else f"{share * 100:.0f}%"


def _name(endpoint: EndpointReport) -> str:
    return f"{endpoint.stage} '{endpoint.name}'"
