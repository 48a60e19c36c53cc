"""What one rollout of messages does: turns, tools, budgets, stop reasons, and who is blamed when it has no grade."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import cast

import pytest

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import UNREADABLE_CALL_OUTPUT, Role, ToolCall
from rft.core.rollout import Rollout, StopReason
from rft.core.spec import Budgets
from rft.grader_gateway.grader import Grader
from rft.rollouts.call_ids import wire_call_id
from rft.rollouts.chat_policy import ChatFinish, ChatRequest, ChatSampling, ChatTurn, ChatUsage
from rft.rollouts.gateways import RolloutHost
from rft.rollouts.message_rollout import MessageRollout, MessageSetup, run_message_rollout
from rft.testing.chat_policies import ScriptedChatPolicy, chat_call
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

SEARCH = [chat_call("search", '{"q": 1}')]
ANSWER = "The answer is 4."
HOUR_S = 3600.0


async def echo(call: ToolCall, trace_id: str) -> str | Failure:
    del trace_id
    return call.arguments


async def one(trace: FinishedTrace, trace_id: str) -> float | Failure:
    del trace, trace_id
    return 1.0


def setup_of(
    policy: ScriptedChatPolicy,
    *,
    tools: FunctionTools | None = None,
    grader: Grader | None = None,
    is_graded: bool = True,
    budgets: Budgets | None = None,
    host: RolloutHost | None = None,
    sampling: ChatSampling | None = None,
) -> MessageSetup:
    return MessageSetup(
        policy=policy,
        tools=tools or FunctionTools(echo),
        grader=(grader or FunctionGrader(one)) if is_graded else None,
        grader_name="grader",
        budgets=budgets or Budgets(),
        model_name="openai/gpt",
        host=host,
        sampling=sampling or ChatSampling(),
        clock=virtual_clock,
    )


def run(row: DatasetRow, setup: MessageSetup) -> MessageRollout:
    return run_in_virtual_time(run_message_rollout(row, setup))


def failed(row: DatasetRow, setup: MessageSetup) -> tuple[MessageRollout, Failure]:
    rollout = run(row, setup)
    assert isinstance(rollout.outcome, Failure)
    assert rollout.reward is None
    return rollout, rollout.outcome


def test_tool_calls_then_answer_then_grade(row: DatasetRow) -> None:
    tools, grader = FunctionTools(echo), FunctionGrader(one)
    policy = ScriptedChatPolicy([SEARCH, ANSWER])
    rollout = run(row, setup_of(policy, tools=tools, grader=grader))
    assert (rollout.stop_reason, rollout.reward) == (StopReason.COMPLETED, 1.0)
    assert [message.role for message in rollout.messages[2:]] == [Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert (rollout.messages[3].content, rollout.messages[-1].content) == ('{"q": 1}', ANSWER)
    judged, _ = grader.graded[0]
    assert judged.messages == rollout.messages
    assert (judged.prompt_messages, judged.finish_reason, judged.model) == (2, "stop", "openai/gpt")
    assert rollout.usage == ChatUsage(prompt_tokens=200, completion_tokens=20)
    assert (rollout.models, rollout.tool_calls, rollout.turns_without_usage) == (("scripted",), 1, 0)


def test_where_nobody_answers_what_a_row_describes_it_ends_with_the_first_calls(row: DatasetRow) -> None:
    tools, grader = FunctionTools(echo), FunctionGrader(one)
    setup = setup_of(ScriptedChatPolicy([SEARCH, ANSWER]), tools=tools, grader=grader)
    setup = dataclasses.replace(setup, has_tool_servers=False)
    rollout = run(row, setup)
    assert (rollout.stop_reason, rollout.reward, tools.calls) == (StopReason.TOOL_CALLS, 1.0, [])
    assert (rollout.messages[-1].role, rollout.tool_calls) == (Role.ASSISTANT, 1)
    assert grader.graded[0][0].finish_reason == "tool_calls"


def test_customers_get_ids_of_the_trace_and_the_policy_gets_its_own_back(row: DatasetRow) -> None:
    tools, policy = FunctionTools(echo), ScriptedChatPolicy([SEARCH * 2, ANSWER])
    rollout = run(row, setup_of(policy, tools=tools))
    wire_ids = [wire_call_id(rollout.trace_id, turn=0, position=position) for position in (0, 1)]
    assert [call.call_id for call, _ in tools.calls] == wire_ids
    assert [message.tool_call_id for message in rollout.messages[3:5]] == wire_ids
    said, *answers = policy.requests[1].messages[2:]
    assert [call.call_id for call in said.tool_calls] == ["own_0_0", "own_0_1"]
    assert [answer.tool_call_id for answer in answers] == ["own_0_0", "own_0_1"]


def test_one_trace_id_on_every_turn_call_and_grade(row: DatasetRow) -> None:
    tools, grader, policy = FunctionTools(echo), FunctionGrader(one), ScriptedChatPolicy([SEARCH, SEARCH, ANSWER])
    rollout = run(row, setup_of(policy, tools=tools, grader=grader))
    seen = [trace_id for _, trace_id in (*tools.calls, *grader.graded)]
    assert {*seen, *(request.trace_id for request in policy.requests)} == {rollout.trace_id}
    assert [request.turn for request in policy.requests] == [0, 1, 2]


def test_calls_of_one_turn_run_at_once(row: DatasetRow) -> None:
    everyone_here = asyncio.Barrier(3)

    async def meet(call: ToolCall, trace_id: str) -> str:
        await everyone_here.wait()
        await asyncio.sleep(5)
        return "met"

    rollout = run(row, setup_of(ScriptedChatPolicy([SEARCH * 3, ANSWER]), tools=FunctionTools(meet)))
    assert [result.output for result in rollout.turns[0].results] == ["met"] * 3
    assert (rollout.tools_s, rollout.duration_s) == pytest.approx((5.0, 5.0))


def test_a_call_without_a_name_is_answered_with_words(row: DatasetRow) -> None:
    tools, policy = FunctionTools(echo), ScriptedChatPolicy([[chat_call("", "{"), *SEARCH], ANSWER])
    rollout = run(row, setup_of(policy, tools=tools))
    broken, good = rollout.turns[0].results
    assert (broken.output, broken.error_code) == (UNREADABLE_CALL_OUTPUT, "unreadable_call")
    assert good.output == '{"q": 1}'
    assert [call.name for call, _ in tools.calls] == ["search"]
    assert rollout.reward == 1.0


def test_calls_beyond_the_budget_are_refused_and_one_turn_is_left(row: DatasetRow) -> None:
    tools, policy = FunctionTools(echo), ScriptedChatPolicy([SEARCH, SEARCH * 2, SEARCH, ANSWER])
    rollout = run(row, setup_of(policy, tools=tools, budgets=Budgets(max_tool_calls=2)))
    assert len(tools.calls) == 2
    assert [result.error_code for result in rollout.turns[1].results] == [None, "tool_budget_used_up"]
    assert (rollout.stop_reason, len(rollout.turns)) == (StopReason.MAX_TOOL_CALLS, 3)
    assert isinstance(rollout.outcome, Grade)


def cut(usage: ChatUsage | None, *calls: ToolCall) -> ChatTurn:
    return ChatTurn("The an", ChatFinish.LENGTH, tool_calls=calls, usage=usage)


FULL = ChatTurn("", ChatFinish.CONTEXT_FULL)
STOPS: list[tuple[StopReason, list[object], Budgets, int]] = [
    (StopReason.COMPLETED, [ANSWER], Budgets(), 1),
    (StopReason.COMPLETED, [""], Budgets(), 1),
    (StopReason.MAX_TURNS, [SEARCH] * 9, Budgets(max_turns=3), 3),
    (StopReason.MAX_TOKENS, [SEARCH] * 9, Budgets(max_tokens=25), 3),
    (StopReason.MAX_TOKENS, [cut(ChatUsage(completion_tokens=6))], Budgets(max_tokens=6), 1),
    (StopReason.MAX_TOKENS, [cut(None)], Budgets(), 1),
    # Cut, although the budget has room: the model's own limit.
    (StopReason.CONTEXT_FULL, [cut(ChatUsage(completion_tokens=6))], Budgets(max_tokens=60), 1),
    (StopReason.CONTEXT_FULL, [FULL], Budgets(), 0),
    (StopReason.CONTEXT_FULL, [SEARCH, FULL], Budgets(), 1),
]


@pytest.mark.parametrize(("stop_reason", "script", "budgets", "turns"), STOPS)
def test_every_stop_reason_is_graded(
    row: DatasetRow, stop_reason: StopReason, script: list[object], budgets: Budgets, turns: int
) -> None:
    grader = FunctionGrader(one)
    policy = ScriptedChatPolicy(cast("list[str]", script))
    rollout = run(row, setup_of(policy, grader=grader, budgets=budgets))
    assert (rollout.stop_reason, rollout.reward, len(rollout.turns)) == (stop_reason, 1.0, turns)
    is_cut = stop_reason in (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL)
    assert grader.graded[0][0].finish_reason == ("length" if is_cut else "stop")
    assert rollout.messages[-1].role is not Role.ASSISTANT or not is_cut or rollout.messages[-1].content == "The an"


def test_all_stop_reasons_are_tested() -> None:
    tested_above = {StopReason.MAX_TOOL_CALLS, StopReason.TOOL_CALLS}
    assert {stop_reason for stop_reason, *_ in STOPS} | tested_above == set(StopReason)


def test_a_cut_turn_runs_no_tools(row: DatasetRow) -> None:
    tools = FunctionTools(echo)
    rollout = run(row, setup_of(ScriptedChatPolicy([cut(None, *SEARCH)]), tools=tools))
    assert tools.calls == []
    assert len(rollout.messages[-1].tool_calls) == 1


def test_a_turn_may_take_what_is_left_of_the_budget_and_gets_a_seed_of_its_own(row: DatasetRow) -> None:
    policy = ScriptedChatPolicy([SEARCH, SEARCH, ANSWER])
    run(row, setup_of(policy, budgets=Budgets(max_tokens=35), sampling=ChatSampling(max_tokens=30, seed=5)))
    assert [request.sampling.max_tokens for request in policy.requests] == [30, 25, 15]
    seeds = [request.sampling.seed for request in policy.requests]
    assert len({*seeds}) == 3
    again = ScriptedChatPolicy([SEARCH, SEARCH, ANSWER])
    run(row, setup_of(again, budgets=Budgets(max_tokens=35), sampling=ChatSampling(seed=5)))
    assert [request.sampling.seed for request in again.requests] == seeds


def test_a_model_whose_server_counts_no_tokens_still_ends(row: DatasetRow) -> None:
    talk = ChatTurn("x" * 40, ChatFinish.STOP, tool_calls=(chat_call("search", call_id="c"),), usage=None)
    rollout = run(row, setup_of(ScriptedChatPolicy([talk] * 99), budgets=Budgets(max_tokens=100)))
    assert rollout.stop_reason is StopReason.MAX_TOKENS
    assert len(rollout.turns) == rollout.turns_without_usage == 10
    assert rollout.usage == ChatUsage()


def test_without_a_grader_it_ends_ungraded(row: DatasetRow) -> None:
    rollout = run(row, setup_of(ScriptedChatPolicy([ANSWER]), is_graded=False))
    assert (rollout.outcome, rollout.reward, rollout.stop_reason) == (None, None, StopReason.COMPLETED)


def failure(code: FailureCode, stage: Stage) -> Failure:
    return Failure(stage=stage, code=code, message="down", endpoint="x", status=503, attempts=4, elapsed_s=9.0)


@pytest.mark.parametrize("code", list(FailureCode))
@pytest.mark.parametrize("stage", [Stage.SAMPLER, Stage.TOOL, Stage.GRADER])
def test_a_failure_of_any_stage_is_told_as_it_came_and_is_no_grade(
    row: DatasetRow, code: FailureCode, stage: Stage
) -> None:
    down = failure(code, stage)

    async def tool(call: ToolCall, trace_id: str) -> str | Failure:
        return down if stage is Stage.TOOL else "found"

    async def score(trace: FinishedTrace, trace_id: str) -> float | Failure:
        return down if stage is Stage.GRADER else 1.0

    policy = ScriptedChatPolicy([SEARCH, down if stage is Stage.SAMPLER else ANSWER])
    rollout, outcome = failed(row, setup_of(policy, tools=FunctionTools(tool), grader=FunctionGrader(score)))
    assert outcome == down
    assert rollout.stop_reason is (StopReason.COMPLETED if stage is Stage.GRADER else None)


@pytest.mark.parametrize(
    ("provider", "code", "fault"),
    [
        ("openai", FailureCode.DEADLINE_EXCEEDED, Fault.ENDPOINT),
        (None, FailureCode.PLATFORM_DEADLINE, Fault.PLATFORM),
    ],
)
def test_the_deadline_blames_whoever_has_the_model(
    row: DatasetRow, provider: str | None, code: FailureCode, fault: Fault
) -> None:
    async def hang(request: ChatRequest) -> None:
        await asyncio.sleep(HOUR_S)

    policy = ScriptedChatPolicy([ANSWER], provider=provider, wait=hang)
    rollout, outcome = failed(row, setup_of(policy, budgets=Budgets(deadline_s=60)))
    assert (outcome.stage, outcome.code, outcome.fault, outcome.endpoint) == (Stage.SAMPLER, code, fault, provider)
    assert (outcome.elapsed_s, rollout.sampling_s) == pytest.approx((60, 60))


def test_the_deadline_blames_the_tool_and_the_grader_that_hold_it(row: DatasetRow) -> None:
    async def hang(call_or_trace: object, trace_id: str) -> float:
        await asyncio.sleep(HOUR_S)
        return 1.0

    slow_tool = FunctionTools(cast("Callable[..., object]", hang))  # pyright: ignore[reportArgumentType]
    _, outcome = failed(row, setup_of(ScriptedChatPolicy([SEARCH]), tools=slow_tool, budgets=Budgets(deadline_s=60)))
    assert (outcome.stage, outcome.code, outcome.endpoint) == (Stage.TOOL, FailureCode.DEADLINE_EXCEEDED, "search")
    slow_grader = FunctionGrader(hang)
    _, outcome = failed(row, setup_of(ScriptedChatPolicy([ANSWER]), grader=slow_grader, budgets=Budgets(deadline_s=60)))
    assert (outcome.stage, outcome.code, outcome.endpoint) == (Stage.GRADER, FailureCode.DEADLINE_EXCEEDED, "grader")


def test_an_exception_of_a_policy_is_ours(row: DatasetRow) -> None:
    def broken(request: ChatRequest) -> str:
        raise ZeroDivisionError("sk-secret")

    _, outcome = failed(row, setup_of(ScriptedChatPolicy(broken)))
    assert (outcome.stage, outcome.code, outcome.fault) == (
        Stage.PLATFORM,
        FailureCode.INTERNAL_ERROR,
        Fault.PLATFORM,
    )


class Host:
    def __init__(self) -> None:
        self.told: list[object] = []

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        self.told.append("started")
        return None

    def ended(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        self.told.append(outcome)


def test_the_host_is_told_of_the_end_also_of_a_cancelled_one(row: DatasetRow) -> None:
    async def hang(request: ChatRequest) -> None:
        await asyncio.sleep(HOUR_S)

    async def cancel_it(host: Host) -> None:
        task = asyncio.ensure_future(
            run_message_rollout(row, setup_of(ScriptedChatPolicy([ANSWER], wait=hang), host=host))
        )
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    graded, cancelled = Host(), Host()
    rollout = run(row, setup_of(ScriptedChatPolicy([ANSWER]), host=graded))
    assert graded.told == ["started", rollout.outcome]
    run_in_virtual_time(cancel_it(cancelled))
    assert cancelled.told == ["started", None]


def test_it_is_no_rollout_and_has_no_tokens_that_could_be_trained_on() -> None:
    assert not issubclass(MessageRollout, Rollout)
    names = {field.name for field in dataclasses.fields(MessageRollout)}
    assert names.isdisjoint({"trace", "key", "policy_version"})
    assert not [name for name in names if "token_ids" in name or "logprobs" in name]
