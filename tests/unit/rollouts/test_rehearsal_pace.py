"""What a rehearsal says will limit a job, and what `max_staleness: "auto"` makes of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.failure import Stage
from rft.rollouts.rehearsal_pace import MOST_AUTO_STALENESS, caps_by_url, limits, rehearsed_pace
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan
from tests.shared.rehearsal_reports import endpoint, report

PLAN = RehearsalPlan(rows_per_step=16, group_size=8, rollouts=128, calls_per_rollout=3)
GRADER = endpoint(stage=Stage.GRADER, name="judge", url="https://example.com/grade", calls=128, p95_ms=500.0)
CROWDED = endpoint(calls=192, p50_ms=2_000.0, p95_ms=2_500.0, safe_concurrency=16, is_limit_found=True)


def auto(tool_s: float, update_s: float) -> int:
    tool = endpoint(p50_ms=tool_s * 1e3, p95_ms=tool_s * 1e3)
    found = rehearsed_pace(report(tool, GRADER), PLAN, rollouts=128, caps={})
    assert found is not None
    assert found.rollout_s == pytest.approx(3 * tool_s + 0.5)
    return found.auto_staleness(update_s)


def callback(seconds: float, **changes: Any) -> EndpointReport:
    """Its beginnings are so slow; each rollout makes one call as it begins and one as it ends."""
    ms = {"p50_ms": seconds * 1e3, "p95_ms": seconds * 1e3}
    url = "https://example.com/hook"
    return endpoint(name="search (rollout callback)", url=url, calls=256, is_callback=True, **ms, **changes)


@pytest.mark.parametrize("callback_s", [0.0, 0.001, 20.0])
def test_a_rollout_waits_once_for_the_slowest_callback_and_its_tools_are_as_slow_as_without(callback_s: float) -> None:
    slow, quick = callback(callback_s), callback(callback_s / 2)
    told = report(endpoint(p50_ms=2_000.0, p95_ms=2_000.0), slow, quick, GRADER)
    found = rehearsed_pace(told, PLAN, rollouts=128, caps={})
    assert found is not None
    assert found.rollout_s == pytest.approx(3 * 2.0 + 0.5 + callback_s)


def test_a_step_waits_for_the_beginnings_that_a_callback_bears_and_not_for_the_ends() -> None:
    crowded = callback(20.0, safe_concurrency=8, is_limit_found=True)
    found = rehearsed_pace(report(endpoint(), crowded, GRADER), PLAN, rollouts=128, caps={})
    assert found is not None
    [one] = found.endpoints
    assert (one.calls, one.seconds) == (128, pytest.approx(128 * 20.0 / 8))


@pytest.mark.parametrize(("tool_s", "expected"), [(0.05, 1), (1.0, 1), (5.0, 2), (9.0, 3), (60.0, 4)])
def test_auto_follows_the_length_of_rollouts_in_updates(tool_s: float, expected: int) -> None:
    assert auto(tool_s, update_s=10.0) == expected


@given(st.floats(0.01, 600), st.floats(0.1, 600), st.floats(1.01, 10))
def test_auto_is_bounded_and_longer_rollouts_never_make_it_smaller(tool_s: float, update_s: float, more: float) -> None:
    shorter, longer = auto(tool_s, update_s), auto(tool_s * more, update_s)
    assert 1 <= shorter <= longer <= MOST_AUTO_STALENESS


def test_older_policies_are_no_help_where_an_endpoint_bears_no_more() -> None:
    found = rehearsed_pace(
        report(CROWDED, CROWDED.model_copy(update={"name": "cat"}), GRADER), PLAN, rollouts=256, caps={}
    )
    assert found is not None
    [one] = found.endpoints
    assert (one.calls, one.limit, one.seconds) == (768, 16, pytest.approx(96.0))
    assert found.auto_staleness(10.0) == 1
    assert limits(report(CROWDED, GRADER), PLAN, {})[0] == (
        "A step takes at least 24.0 s for its 192 calls of tool 'search', 16 at once:"
        " neither a second GPU nor a larger max_staleness changes that."
    )


SLOW = endpoint(p50_ms=1_000.0, p95_ms=1_000.0)


@pytest.mark.parametrize(
    ("max_concurrency", "rate_limit", "told"),
    [
        (2, None, "192.0 s for its 384 calls of tool 'search', 2 at once as its max_concurrency has it"),
        (None, 4.0, "96.0 s for its 384 calls of tool 'search', 4 a second as its rate_limit has it"),
        (8, 4.0, "96.0 s for its 384 calls of tool 'search', 4 a second as its rate_limit has it"),
    ],
)
def test_a_step_waits_for_what_the_order_allows(
    max_concurrency: int | None, rate_limit: float | None, told: str
) -> None:
    caps = caps_by_url([(f"{SLOW.url}?key=x", max_concurrency, rate_limit), (SLOW.url, None, 100.0)])
    assert limits(report(SLOW, GRADER), PLAN, caps)[0] == (
        f"A step takes at least {told}: raise that if it bears more;"
        " neither a second GPU nor a larger max_staleness changes that."
    )


def test_a_cap_above_what_an_endpoint_bears_changes_nothing() -> None:
    caps = caps_by_url([(CROWDED.url, 64, None)])
    assert limits(report(CROWDED, GRADER), PLAN, caps) == limits(report(CROWDED, GRADER), PLAN, {})


def test_auto_does_not_rise_where_a_cap_of_the_order_keeps_the_calls() -> None:
    slow = endpoint(p50_ms=9_000.0, p95_ms=9_000.0)
    free, capped = ({}, caps_by_url([(slow.url, 4, None)]))
    found = [rehearsed_pace(report(slow, GRADER), PLAN, rollouts=128, caps=caps) for caps in (free, capped)]
    assert [one and one.auto_staleness(10.0) for one in found] == [3, 1]


def test_fast_endpoints_limit_nothing() -> None:
    [sentence] = limits(report(endpoint(), GRADER), PLAN, {})
    assert sentence.startswith("Tools and grader take about 0.6 s of a rollout")
    assert sentence.endswith('max_staleness "auto" is 1 where an update takes 10 s.')


def test_nothing_is_said_of_what_did_not_answer_or_end() -> None:
    silent = endpoint(p50_ms=None, p95_ms=None)
    assert limits(report(silent), PLAN, {}) == ()
    assert limits(report(endpoint(), unfinished_rollouts=1), PLAN, {}) == ()
