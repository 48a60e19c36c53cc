"""Numbers of a step: rewards over graded rollouts, blame counted, nothing invented."""

from collections.abc import Callable
from dataclasses import replace
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.events import EventLine
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade, PartOutcome, TokenUsage
from rft.core.group import Group
from rft.core.messages import ToolCall, ToolResult
from rft.core.rollout import Rollout, RolloutKey, Split, StopReason
from rft.core.step_record import RolloutStats
from rft.core.turns import TokenSpan, Trace, Turn
from rft.rollouts.stats import mean, percentile, rollout_stats, std, to_rollout_done, wall_shares

Outcome = float | FailureCode


def key(row_index: int, index: int, attempt: int = 0) -> RolloutKey:
    return RolloutKey(
        job_id="j", job_seed=1, split=Split.TRAIN, step=1, epoch=0, row_index=row_index, index=index, attempt=attempt
    )


def turn(*results: tuple[str, str | None], is_broken: bool = False, attempts: int = 1, latency_s: float = 2.0) -> Turn:
    """Calls by tool name and error code."""
    calls = tuple(ToolCall(call_id=f"c{i}", name=name, arguments="{}") for i, (name, _) in enumerate(results))
    answers = tuple(
        ToolResult(
            call_id=call.call_id,
            name=call.name,
            output="out",
            is_model_error=code is not None,
            error_code=code,
            status=int(code.removeprefix("http_")) if code is not None and code.startswith("http_") else None,
            latency_s=latency_s,
            attempts=attempts if code is None or code.startswith("http") else 0,
            output_tokens=10,
        )
        for call, (_, code) in zip(calls, results, strict=True)
    )
    return Turn("", "", calls, () if is_broken else answers, completion_tokens=4, sampling_s=1.0, tools_s=2.0)


def rollout(
    outcome: Outcome,
    *turns: Turn,
    row_index: int = 0,
    index: int = 0,
    stage: Stage = Stage.TOOL,
    endpoint: str = "search",
    duration_s: float = 10.0,
) -> Rollout:
    trace = Trace(prompt_ids=(1, 2))
    for each in turns:
        trace.append(TokenSpan.sampled((5,) * each.completion_tokens, (-1.0,) * each.completion_tokens))
        trace.append(TokenSpan.context((6, 6)))
        trace.turns.append(each)
    is_failed = isinstance(outcome, FailureCode)
    return Rollout(
        key=key(row_index, index),
        trace_id=f"trace_{row_index}_{index}",
        policy_version=0,
        trace=trace,
        stop_reason=None if is_failed else StopReason.COMPLETED,
        outcome=Failure(stage=stage, code=outcome, message="down", endpoint=endpoint)
        if isinstance(outcome, FailureCode)
        else Grade(reward=outcome, scores={"g": outcome * 5}, grader="g", latency_s=0.5),
        messages=(),
        duration_s=duration_s,
        sampling_s=4.0,
        tools_s=5.0,
        grading_s=1.0,
    )


def group(*outcomes: Outcome, row_index: int = 0) -> Group:
    return Group(row_index, tuple(rollout(outcome, turn(), row_index=row_index) for outcome in outcomes))


def test_rewards_are_over_graded_rollouts_only() -> None:
    stats = rollout_stats([group(1.0, 0.0, FailureCode.TIMEOUT, 0.5)], [rollout(FailureCode.SERVER_ERROR)])
    assert (stats.rollouts, stats.graded, stats.excluded, stats.replaced) == (5, 3, 2, 1)
    assert stats.excluded_share == pytest.approx(0.4)
    assert stats.failures_by_code == {"timeout": 1, "server_error": 1}
    assert stats.reward_mean == pytest.approx(0.5)
    assert stats.reward_std == pytest.approx(0.5)
    assert stats.reward_mean_if_failures_were_zero == pytest.approx(0.3)
    assert stats.grader_scores_mean == {"g": pytest.approx(2.5)}
    assert stats.stop_reasons == {"completed": 3}
    assert stats.grader_latency_mean_s == pytest.approx(0.5)
    assert stats.completion_tokens_total == 16


def test_thoughts_are_counted_among_the_sampled_tokens_and_apart() -> None:
    thinking = replace(turn(), reasoning_tokens=3)
    one, failed = rollout(1.0, thinking, turn()), rollout(FailureCode.TIMEOUT, thinking, index=1)
    stats = rollout_stats([Group(0, (one, rollout(0.0, turn(), index=2), failed))])
    assert (stats.reasoning_tokens_mean, stats.reasoning_tokens_total) == (1.5, 6)
    assert stats.completion_tokens_total == 16
    assert to_rollout_done(one).reasoning_tokens == 3


def test_groups_without_signal_are_told_apart() -> None:
    stats = rollout_stats(
        [
            group(1.0, 0.0, row_index=0),
            group(0.5, 1.0, row_index=4),
            group(0.0, 0.0, FailureCode.TIMEOUT, row_index=1),
            group(1.0, FailureCode.TIMEOUT, row_index=2),
            group(FailureCode.TIMEOUT, FailureCode.TIMEOUT, row_index=3),
        ]
    )
    assert (stats.groups, stats.zero_variance_groups, stats.too_small_groups) == (5, 1, 2)


def test_an_evaluation_of_one_sample_has_no_degenerate_groups() -> None:
    stats = rollout_stats([group(1.0), group(FailureCode.TIMEOUT, row_index=1)])
    assert (stats.groups, stats.zero_variance_groups, stats.too_small_groups) == (2, 0, 0)


def test_latencies_are_those_of_graded_rollouts() -> None:
    rollouts = [rollout(1.0, index=place, duration_s=duration_s) for place, duration_s in enumerate((9.0, 1.0, 5.0))]
    stats = rollout_stats([Group(0, (*rollouts, rollout(FailureCode.TIMEOUT, index=3, duration_s=100.0)))])
    assert (stats.rollout_latency_p50_s, stats.rollout_latency_p95_s) == (5.0, pytest.approx(8.6))


def test_versions_of_turns_are_told_where_a_newer_policy_sampled_one() -> None:
    assert to_rollout_done(rollout(1.0, turn(), turn())).turn_versions is None
    newer = rollout(1.0, turn(), replace(turn(), policy_version=1))
    assert to_rollout_done(newer).turn_versions == (0, 1)


NOTHING = (
    "reward_mean",
    "reward_std",
    "completion_tokens_mean",
    "turns_mean",
    "tool_calls_mean",
    "rollout_latency_p50_s",
    "rollout_latency_p95_s",
    "grader_latency_mean_s",
)


def test_a_mean_over_nothing_is_none() -> None:
    failed = rollout_stats([group(FailureCode.TIMEOUT, FailureCode.TIMEOUT)])
    assert [getattr(failed, name) for name in NOTHING] == [None] * len(NOTHING)
    assert failed.reward_mean_if_failures_were_zero == 0.0
    assert rollout_stats([]).reward_mean_if_failures_were_zero is None
    assert rollout_stats([group(0.7)]).reward_std is None


def test_tools_by_name() -> None:
    graded = rollout(
        1.0,
        turn(("search", None), ("cat", "http_404"), ("", "unreadable_call"), ("dog", "unknown_tool")),
        turn(("search", "tool_budget_used_up")),
        turn(("search", None), is_broken=True),  # The last turn it was given: nobody made this call.
    )
    failed = rollout(
        FailureCode.SERVER_ERROR,
        turn(("search", None)),
        turn(("cat", None), ("search", None), ("search", None), is_broken=True),
    )
    stats = rollout_stats([Group(0, (graded, failed))])
    tools = {tool.name: tool for tool in stats.tools}
    assert list(tools) == ["(unknown)", "(unreadable)", "cat", "search"]
    assert {name: tool.calls for name, tool in tools.items()} == {
        "(unknown)": 1,
        "(unreadable)": 1,
        "cat": 2,
        "search": 4,
    }
    assert tools["search"].errors_by_code == {"server_error": 1}
    assert tools["cat"].errors_by_code == {"http_404": 1}
    assert (tools["cat"].client_errors_by_status, tools["search"].client_errors_by_status) == ({"404": 1}, {})
    assert tools["search"].calls_per_rollout_mean == 1.0
    assert tools["search"].output_tokens_mean == 10
    assert tools["search"].execution_latency_mean_s == 2.0
    assert (tools["search"].execution_latency_p50_s, tools["search"].execution_latency_p95_s) == (2.0, 2.0)
    assert tools["(unknown)"].execution_latency_mean_s is None
    assert stats.tool_calls_mean == 4.0
    done = to_rollout_done(graded)
    assert done.tool_calls == {"search": 1, "cat": 1, "(unreadable)": 1, "(unknown)": 1}
    assert done.tool_errors == {"cat": 1, "(unreadable)": 1, "(unknown)": 1}


def test_a_tool_that_never_answered_has_no_means() -> None:
    failed = rollout(FailureCode.DEADLINE_EXCEEDED, turn(("search", None), is_broken=True))
    (tool,) = rollout_stats([Group(0, (failed,))]).tools
    assert (tool.calls, tool.errors_by_code) == (1, {"deadline_exceeded": 1})
    assert (tool.calls_per_rollout_mean, tool.output_tokens_mean, tool.execution_latency_mean_s) == (None, None, None)
    assert (tool.execution_latency_p50_s, tool.execution_latency_p95_s) == (None, None)


@pytest.mark.parametrize("make", [lambda: rollout(0.0, turn(("search", None))), lambda: rollout(FailureCode.TIMEOUT)])
def test_the_event_of_a_rollout_survives_the_log(make: Callable[[], Rollout]) -> None:
    ended = make()
    line = EventLine(seq=1, at=0.0, event=to_rollout_done(ended))
    read = EventLine.model_validate_json(line.model_dump_json())
    assert read == line
    assert read.event.type == "rollout_done"
    assert read.event.outcome == ended.outcome
    assert read.event.trace_id == ended.trace_id
    assert (read.event.stop_reason is None) == isinstance(ended.outcome, Failure)


def test_wall_time_is_shared_out_whole() -> None:
    shares = wall_shares([rollout(1.0), rollout(0.0)], 30.0)
    assert (shares.sampling_s, shares.tools_s, shares.grading_s) == pytest.approx((12.0, 15.0, 3.0))
    nothing = wall_shares([], 30.0)
    assert (nothing.sampling_s, nothing.tools_s, nothing.grading_s) == (30.0, 0.0, 0.0)


finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=1), st.floats(0, 1))
def test_percentile_lies_within_and_never_falls(values: list[float], share: float) -> None:
    at = percentile(values, share)
    higher = percentile(values, min(1.0, share + 0.1))
    assert at is not None
    assert higher is not None
    assert min(values) - 1e-6 <= at <= higher + 1e-6
    assert higher <= max(values) + 1e-6
    assert percentile(values, 0.0) == min(values)
    assert percentile(values, 1.0) == max(values)


@given(st.lists(finite, min_size=2), finite)
def test_std_does_not_move_with_the_values(values: list[float], shift: float) -> None:
    spread, moved = std(values), std([value + shift for value in values])
    assert spread is not None
    assert moved is not None
    assert spread >= 0
    assert isclose(spread, moved, rel_tol=1e-6, abs_tol=1e-6)
    centre = mean(values)
    assert centre is not None
    assert min(values) - 1e-6 <= centre <= max(values) + 1e-6


outcomes = st.one_of(finite, st.sampled_from(list(FailureCode)))


@given(st.lists(st.lists(outcomes, min_size=1, max_size=5), max_size=4), st.lists(st.sampled_from(list(FailureCode))))
def test_counts_always_add_up(rows: list[list[Outcome]], replaced: list[FailureCode]) -> None:
    groups = [group(*each, row_index=number) for number, each in enumerate(rows)]
    stats = rollout_stats(groups, [rollout(code) for code in replaced])
    assert stats.rollouts == stats.graded + stats.excluded == sum(map(len, rows)) + len(replaced)
    assert sum(stats.failures_by_code.values()) == stats.excluded >= stats.replaced
    assert sum(stats.stop_reasons.values()) == stats.graded
    assert stats.zero_variance_groups + stats.too_small_groups <= stats.groups
    assert (stats.reward_mean is None) == (stats.graded == 0)
    assert RolloutStats.model_validate_json(stats.model_dump_json()) == stats


@given(st.lists(finite, min_size=1, max_size=6), st.lists(st.sampled_from(list(FailureCode)), max_size=6))
def test_failures_never_move_the_mean_reward(rewards: list[float], failures: list[FailureCode]) -> None:
    clean, failing = rollout_stats([group(*rewards)]), rollout_stats([group(*rewards, *failures)])
    assert clean.reward_mean == failing.reward_mean
    assert clean.reward_std == failing.reward_std
    assert clean.completion_tokens_mean == failing.completion_tokens_mean


def judged(outcome: Grade | Failure, index: int = 0) -> Rollout:
    return replace(rollout(0.5, turn(), index=index), outcome=outcome)


def grader_down(code: FailureCode = FailureCode.TIMEOUT, **more: object) -> Failure:
    return Failure.model_validate({"stage": Stage.GRADER, "code": code, "message": "", "endpoint": "g", **more})


def test_what_judges_used_and_what_cost_scores_is_counted() -> None:
    def scored(index: int, prompt_tokens: int, *errors: str) -> Rollout:
        usage = {"judge-1": TokenUsage(prompt_tokens=prompt_tokens, completion_tokens=2, cached_tokens=1)}
        return judged(Grade(reward=0.5, grader="g", usage=usage, model_errors=errors), index)

    group_of_three = Group(0, (scored(0, 10), scored(1, 20, "sample_parse_error"), rollout(FailureCode.TIMEOUT)))
    stats = rollout_stats([group_of_three])
    assert stats.judge_usage == {"judge-1": TokenUsage(prompt_tokens=30, completion_tokens=4, cached_tokens=2)}
    assert stats.model_errors == {"sample_parse_error": 1}
    assert stats.failures_by_stage == {"tool": 1}
    plain = rollout_stats([group(0.5, 1.0)])
    assert (plain.judge_usage, plain.model_errors) == ({}, {})


def test_tokens_of_gradings_that_came_to_nothing_are_counted_replaced_rollouts_included() -> None:
    spent = {"judge-1": TokenUsage(prompt_tokens=10)}
    stats = rollout_stats([Group(0, (judged(grader_down(usage=spent)),))], [judged(grader_down(usage=spent))])
    assert stats.judge_usage == {"judge-1": TokenUsage(prompt_tokens=20)}
    (only,) = stats.graders
    assert (only.name, only.gradings, only.latency_mean_s, only.errors_by_code) == ("g", 2, None, {"timeout": 2})
    assert only.usage == stats.judge_usage


def test_what_the_parts_of_a_multi_grader_did_is_told_apart_whatever_they_are_called() -> None:
    spent = {"m": TokenUsage(prompt_tokens=5)}
    good = PartOutcome(score=1.0, latency_s=2.0, usage=spent)
    quick = PartOutcome(score=0.0, latency_s=1.0, model_errors=("sample_parse_error",))
    bad = PartOutcome(failure_code="grader_error", latency_s=9.0)
    outcomes: list[Grade | Failure] = [
        Grade(reward=1.0, grader="a", latency_s=2.0, usage=spent, parts={"a": good, "b": quick}),
        grader_down(FailureCode.GRADER_ERROR, usage=spent, endpoint="b", parts={"a": good, "b": bad}),
        grader_down(FailureCode.GRADER_ERROR, endpoint="a", parts={"a": quick, "b": quick}),
        grader_down(FailureCode.DEADLINE_EXCEEDED, endpoint="a"),
    ]
    stats = rollout_stats([Group(0, tuple(judged(outcome, index) for index, outcome in enumerate(outcomes)))])
    a, b, whole = stats.graders
    assert [(one.name, one.is_part, one.gradings) for one in stats.graders] == [
        ("a", True, 3),
        ("b", True, 3),
        ("a", False, 3),
    ]
    assert (a.latency_mean_s, a.errors_by_code, a.usage) == (pytest.approx(5 / 3), {}, {"m": spent["m"] + spent["m"]})
    assert (b.latency_mean_s, b.errors_by_code, b.usage) == (1.0, {"grader_error": 1}, {})
    assert (b.model_errors, whole.model_errors) == ({"sample_parse_error": 2}, {})
    assert whole.errors_by_code == {"grader_error": 1, "deadline_exceeded": 1}, "one was the second part's"
    assert stats.judge_usage == {"m": spent["m"] + spent["m"]}
    assert stats.failures_by_stage == {"grader": 3}
