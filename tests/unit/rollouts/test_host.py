"""The host of rollouts is told of each beginning before the first sample, and of each end, whatever it was."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.core.rollout import RolloutKey
from rft.core.spec import Budgets
from rft.rollouts.executor import run_step
from rft.rollouts.group import StepRow
from rft.rollouts.loop import run_rollout
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.trace_ids import trace_ids
from tests.unit.rollouts.test_group_grader import DOWN as JUDGE_DOWN
from tests.unit.rollouts.test_group_grader import FirstIsBest

MakeSetup = Callable[..., RolloutSetup]
SEARCH = tool_call_text("search", '{"q": 1}')
TURNS = [SEARCH, "The answer is 4."]
NO_MACHINE = Failure(stage=Stage.TOOL, code=FailureCode.REJECTED, message="no machine is free", endpoint="search")


@dataclass(slots=True)
class Host:
    """Remembers what it was told."""

    answer: Failure | None = None
    takes_s: float = 0.0
    began: list[tuple[str, JsonObject]] = field(default_factory=list[tuple[str, JsonObject]])
    ends: list[tuple[str, Grade | Failure | None]] = field(default_factory=list[tuple[str, Grade | Failure | None]])

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        self.began.append((trace_id, item))
        await asyncio.sleep(self.takes_s)
        return self.answer

    def ended(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        self.ends.append((trace_id, outcome))


async def fail(call: ToolCall, trace_id: str) -> Failure:
    return Failure(stage=Stage.TOOL, code=FailureCode.SERVER_ERROR, message="down", endpoint="search")


async def hang(call: ToolCall, trace_id: str) -> str:
    await asyncio.sleep(1e6)
    return "late"


def test_a_graded_rollout_is_told_from_beginning_to_end(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    host = Host(takes_s=5.0)
    rollout = run_in_virtual_time(run_rollout(row, key, make_setup(TURNS, host=host)))
    assert host.began == [(rollout.trace_id, row.item)]
    assert host.ends == [(rollout.trace_id, rollout.outcome)]
    assert isinstance(rollout.outcome, Grade)
    assert (rollout.tools_s, rollout.duration_s) == (5.0, 5.0)


def test_a_host_that_refuses_ends_the_rollout_before_the_first_sample(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    host = Host(NO_MACHINE)
    rollout = run_in_virtual_time(run_rollout(row, key, make_setup(TURNS, host=host)))
    assert rollout.outcome == NO_MACHINE
    assert rollout.trace.turns == []
    assert host.ends == [(rollout.trace_id, NO_MACHINE)], "it may have been made all the same"


def test_a_failed_rollout_is_told(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    host = Host()
    rollout = run_in_virtual_time(run_rollout(row, key, make_setup(TURNS, tools=FunctionTools(fail), host=host)))
    assert isinstance(rollout.outcome, Failure)
    assert host.ends == [(rollout.trace_id, rollout.outcome)]


def test_a_host_that_takes_too_long_is_blamed(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    host = Host(takes_s=50.0)
    setup = make_setup(TURNS, host=host, budgets=Budgets(deadline_s=10.0))
    rollout = run_in_virtual_time(run_rollout(row, key, setup))
    assert isinstance(rollout.outcome, Failure)
    assert (rollout.outcome.stage, rollout.outcome.code) == (Stage.TOOL, FailureCode.DEADLINE_EXCEEDED)
    assert "while its beginning was told" in rollout.outcome.message
    assert len(host.ends) == 1


@pytest.mark.parametrize("begins_s", [0.0, 100.0], ids=["conversing", "beginning"])
def test_a_cancelled_rollout_is_told(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, begins_s: float) -> None:
    host = Host(takes_s=begins_s)

    async def main() -> None:
        setup = make_setup(TURNS, tools=FunctionTools(hang), host=host)
        running = asyncio.create_task(run_rollout(row, key, setup))
        await asyncio.sleep(50.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())
    assert host.ends == [(host.began[0][0], None)]


def test_a_rollout_that_never_began_is_not_told(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    host = Host()

    async def main() -> None:
        running = asyncio.create_task(run_rollout(row, key, make_setup(TURNS, host=host)))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())
    assert (host.began, host.ends) == ([], [])


def step(rows: list[DatasetRow], setup: RolloutSetup) -> None:
    run_in_virtual_time(a_step(rows, setup))


async def a_step(rows: list[DatasetRow], setup: RolloutSetup) -> None:
    await run_step(
        [StepRow(row, 0) for row in rows], setup=setup, job_id="j", job_seed=5, step=2, group_size=4,
        replacement_share=0.25, on_rollout=lambda rollout, was_replaced: None,
    )  # fmt: skip


async def one_in_three(call: ToolCall, trace_id: str) -> str | Failure:
    return "here" if int(trace_id[-4:], 16) % 3 else await fail(call, trace_id)


@pytest.mark.parametrize("is_ranked", [False, True])
def test_every_beginning_of_a_step_has_one_end(rows: list[DatasetRow], make_setup: MakeSetup, is_ranked: bool) -> None:
    host = Host(takes_s=1.0)
    judge = FirstIsBest([JUDGE_DOWN]) if is_ranked else None
    setup = make_setup(
        TURNS, tools=FunctionTools(one_in_three), host=host, group_grader=judge, draw_trace_id=trace_ids()
    )
    step(rows, setup)
    assert sorted(trace_id for trace_id, _ in host.began) == sorted(trace_id for trace_id, _ in host.ends)
    assert len(host.began) > 16, "replacements begin too"
    assert None not in [outcome for _, outcome in host.ends]


def test_rollouts_that_wait_for_their_groups_verdict_end_when_the_step_is_given_up(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    host = Host()

    async def slow_first(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(1e6 if trace_id == host.began[0][0] else 1.0)
        return "here"

    async def main() -> None:
        setup = make_setup(TURNS, tools=FunctionTools(slow_first), host=host, group_grader=FirstIsBest())
        running = asyncio.create_task(a_step(rows[:2], setup))
        await asyncio.sleep(2.0)  # One group waits for its slowest, the other for the judge.
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())
    assert sorted(trace_id for trace_id, _ in host.ends) == sorted(trace_id for trace_id, _ in host.began)
    assert all(outcome is None for _, outcome in host.ends)


async def score_poorly(trace: FinishedTrace, trace_id: str) -> float:
    return 0.0


def test_a_reward_of_zero_is_told_as_graded(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    host = Host()
    run_in_virtual_time(run_rollout(row, key, make_setup(TURNS, grader=FunctionGrader(score_poorly), host=host)))
    [(_, outcome)] = host.ends
    assert isinstance(outcome, Grade)
    assert outcome.reward == 0.0
