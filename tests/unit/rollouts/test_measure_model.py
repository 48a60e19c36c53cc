"""Rollouts of messages over rows: each row as often as wanted, so many at a time, and what ends it early."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolResult
from rft.core.spec import Budgets
from rft.rollouts.chat_policy import UNKEPT_FORMAT, UNUSABLE_MODEL, ChatRequest
from rft.rollouts.measure_model import MeasuredModel, measure_model
from rft.rollouts.message_rollout import MessageSetup
from rft.testing.chat_policies import ScriptedChatPolicy, chat_call
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

T = TypeVar("T")
Answer = Callable[[ToolCall, str], Awaitable[str | Failure | ToolResult]]


async def one(trace: FinishedTrace, trace_id: str) -> float | Failure:
    return 1.0


async def found(call: ToolCall, trace_id: str) -> str | Failure | ToolResult:
    return "found"


def measured(
    rows: list[DatasetRow], policy: ScriptedChatPolicy, *, tool: Answer = found, samples: int = 3, limit: int = 2
) -> MeasuredModel:
    setup = MessageSetup(
        policy=policy,
        tools=FunctionTools(tool),
        grader=FunctionGrader(one),
        grader_name="grader",
        budgets=Budgets(),
        model_name="m",
        clock=virtual_clock,
    )
    return run_in_virtual_time(measure_model(rows, setup, samples=samples, limit=limit, seed=7))


def test_every_row_as_often_as_wanted_with_seeds_of_their_own(rows: list[DatasetRow]) -> None:
    first, again = ScriptedChatPolicy(["done"]), ScriptedChatPolicy(["done"])
    result = measured(rows, first)
    assert sorted(rollout.row_index for rollout in result.rollouts) == sorted([0, 1, 2, 3] * 3)
    assert all(isinstance(rollout.outcome, Grade) for rollout in result.rollouts)
    assert result.unusable is None
    seeds = [request.sampling.seed for request in first.requests]
    assert len({*seeds}) == len(rows) * 3
    measured(rows, again, limit=5)
    assert {request.sampling.seed for request in again.requests} == {*seeds}


def test_no_more_at_a_time_than_allowed(rows: list[DatasetRow]) -> None:
    under_way, most = 0, 0

    async def slow(request: ChatRequest) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(1)
        under_way -= 1

    measured(rows, ScriptedChatPolicy(["done"], wait=slow), limit=3)
    assert most == 3


@pytest.mark.parametrize("detail", [UNUSABLE_MODEL, UNKEPT_FORMAT])
def test_a_model_that_cannot_be_asked_is_not_asked_for_every_row(rows: list[DatasetRow], detail: str) -> None:
    wrong_key = Failure(stage=Stage.SAMPLER, code=FailureCode.UNAUTHORIZED, message="401", detail=detail)

    async def slow(request: ChatRequest) -> None:
        await asyncio.sleep(1)

    policy = ScriptedChatPolicy([wrong_key], wait=slow)
    result = measured(rows, policy, samples=50, limit=2)
    assert result.unusable == wrong_key
    assert len(policy.requests) <= 3


def test_other_failures_end_nothing(rows: list[DatasetRow]) -> None:
    busy = Failure(stage=Stage.SAMPLER, code=FailureCode.RATE_LIMITED, message="429")
    result = measured(rows, ScriptedChatPolicy([busy]))
    assert [rollout.outcome for rollout in result.rollouts] == [busy] * 12
    assert result.unusable is None


def test_grades_that_came_of_a_tool_that_is_not_there_are_none(rows: list[DatasetRow]) -> None:
    suspicion = Failure(
        stage=Stage.TOOL, code=FailureCode.ENDPOINT_NOT_FOUND, message="answered 404", endpoint="search"
    )

    async def missing(call: ToolCall, trace_id: str) -> ToolResult:
        return ToolResult(
            call_id=call.call_id, name=call.name, output="Error 404", suspected_failure=suspicion, attempts=1
        )

    script = [[chat_call("search")], "done"]
    result = measured(rows, ScriptedChatPolicy(script), tool=missing)
    codes = [rollout.outcome.code for rollout in result.rollouts if isinstance(rollout.outcome, Failure)]
    assert codes == [FailureCode.ENDPOINT_NOT_FOUND] * 12
    assert all(rollout.reward is None for rollout in result.rollouts)
