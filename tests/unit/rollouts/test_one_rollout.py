"""What one rollout does when nothing fails: turns, tools, budgets, stop reasons."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import UNREADABLE_CALL_OUTPUT, Role, ToolCall, ToolResult
from rft.core.rollout import Rollout, RolloutKey, StopReason
from rft.core.spec import Budgets
from rft.grader_gateway.contract import to_sample
from rft.rollouts.loop import run_rollout
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import FakeSampler, ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.trace_ids import trace_ids

MakeSetup = Callable[..., RolloutSetup]
SEARCH = tool_call_text("search", '{"q": 1}')
ANSWER = "The answer is 4."


def run(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> Rollout:
    return run_in_virtual_time(run_rollout(row, key, setup))


async def echo(call: ToolCall, trace_id: str) -> str | Failure | ToolResult:
    del trace_id
    return call.arguments


async def one(trace: FinishedTrace, trace_id: str) -> float | Failure:
    del trace, trace_id
    return 1.0


def test_thoughts_stand_beside_what_was_said_and_are_counted(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    turns = [f"<think>where?</think>Let me look.\n{SEARCH}", f"<think>so</think>{ANSWER}"]
    rollout = run(row, key, make_setup(turns, tools=FunctionTools(echo), grader=FunctionGrader(one)))
    said = [message for message in rollout.messages if message.role is Role.ASSISTANT]
    assert [message.reasoning_content for message in said] == ["where?", "so"]
    assert [message.content for message in said] == ["Let me look.", ANSWER]
    assert [turn.reasoning_tokens for turn in rollout.trace.turns] == [len("where?"), len("so")]
    assert rollout.trace.reasoning_tokens < rollout.trace.sampled_tokens


def test_tool_calls_then_answer_then_grade(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    tools, grader = FunctionTools(echo), FunctionGrader(one)
    rollout = run(row, key, make_setup([f"Let me look.\n{SEARCH}", ANSWER], tools=tools, grader=grader))
    assert rollout.stop_reason is StopReason.COMPLETED
    assert isinstance(rollout.outcome, Grade)
    assert rollout.reward == 1.0
    assert [message.role for message in rollout.messages] == [
        Role.DEVELOPER,
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
    ]
    called, answered, final = rollout.messages[2:]
    assert called.content == "Let me look."
    assert called.tool_calls[0].arguments == '{"q": 1}'
    assert (answered.content, answered.tool_call_id) == ('{"q": 1}', called.tool_calls[0].call_id)
    assert final.content == ANSWER
    assert rollout.trace.turns[0].results[0].output_tokens == len('{"q": 1}')
    judged, _ = grader.graded[0]
    assert tuple(judged.messages) == rollout.messages
    assert (judged.prompt_messages, judged.finish_reason, judged.model) == (2, "stop", "starter")


def test_where_nobody_answers_what_a_row_describes_the_first_calls_are_graded(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    tools, grader = FunctionTools(echo), FunctionGrader(one)
    turns = [f"Let me look.\n{SEARCH}", ANSWER]
    rollout = run(row, key, make_setup(turns, tools=tools, has_tool_servers=False, grader=grader))
    assert (rollout.stop_reason, rollout.reward, tools.calls) == (StopReason.TOOL_CALLS, 1.0, [])
    assert rollout.messages[-1].content == "Let me look."
    (turn,) = rollout.trace.turns
    assert [call.name for call in turn.tool_calls] == ["search"]
    sample = cast("dict[str, Any]", to_sample(grader.graded[0][0]))
    called = {"name": "search", "arguments": '{"q": 1}'}
    assert [call["function"] for call in sample["output_tools"]] == [called]
    choice = sample["choices"][0]
    assert (sample["finish_reason"], choice["finish_reason"]) == ("tool_calls", "tool_calls")
    assert choice["message"]["tool_calls"] == sample["output_tools"]


def test_a_call_of_a_row_that_describes_nothing_is_the_models_mistake(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    row = row.model_copy(update={"tools": ()})
    rollout = run(row, key, make_setup([SEARCH, ANSWER], has_tool_servers=False))
    assert (rollout.stop_reason, rollout.messages[-1].content) == (StopReason.COMPLETED, ANSWER)


def test_one_trace_id_on_every_call_and_the_grade(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    tools, grader = FunctionTools(echo), FunctionGrader(one)
    rollout = run(row, key, make_setup([SEARCH + SEARCH, SEARCH, ANSWER], tools=tools, grader=grader))
    assert [trace_id for _, trace_id in tools.calls] == [rollout.trace_id] * 3
    assert [trace_id for _, trace_id in grader.graded] == [rollout.trace_id]
    assert len({call.call_id for call, _ in tools.calls}) == 3
    assert all(call.call_id.startswith("call_") for call, _ in tools.calls)


def test_calls_of_one_turn_run_at_once(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    everyone_here = asyncio.Barrier(3)

    async def meet(call: ToolCall, trace_id: str) -> str:
        await everyone_here.wait()  # Opens only when all three calls are in flight.
        await asyncio.sleep(5)
        return "met"

    rollout = run(row, key, make_setup([SEARCH * 3, ANSWER], tools=FunctionTools(meet)))
    assert [result.output for result in rollout.trace.turns[0].results] == ["met"] * 3
    assert rollout.tools_s == pytest.approx(5.0)
    assert rollout.duration_s == pytest.approx(5.0)


def test_results_keep_the_order_of_the_calls(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    async def later_ones_answer_first(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(10 - float(call.arguments[-2]))
        return call.arguments

    calls = [tool_call_text("search", f'{{"q": {n}}}') for n in range(4)]
    rollout = run(row, key, make_setup(["".join(calls), ANSWER], tools=FunctionTools(later_ones_answer_first)))
    assert [result.output for result in rollout.trace.turns[0].results] == [f'{{"q": {n}}}' for n in range(4)]


def test_an_empty_answer_is_graded(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    grader = FunctionGrader(one)
    rollout = run(row, key, make_setup([""], grader=grader))
    assert (rollout.stop_reason, rollout.reward) == (StopReason.COMPLETED, 1.0)
    assert grader.graded[0][0].messages[-1].content == ""


def test_an_unreadable_call_is_the_models_mistake(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    tools = FunctionTools(echo)
    rollout = run(row, key, make_setup(["<tool_call>\n{nonsense\n</tool_call>" + SEARCH, ANSWER], tools=tools))
    broken, good = rollout.trace.turns[0].results
    assert broken.is_model_error
    assert broken.error_code == "unreadable_call"
    assert broken.output == UNREADABLE_CALL_OUTPUT
    assert (good.output, good.is_model_error) == ('{"q": 1}', False)
    assert len(tools.calls) == 1
    assert rollout.reward == 1.0


def test_a_call_beyond_the_budget_is_not_made_and_one_turn_is_left(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    tools = FunctionTools(echo)
    setup = make_setup([SEARCH, SEARCH, SEARCH, ANSWER], tools=tools, budgets=Budgets(max_tool_calls=2))
    rollout = run(row, key, setup)
    assert len(tools.calls) == 2
    refused = rollout.trace.turns[2].results[0]
    assert refused.output is not None
    assert refused.output.startswith("Error: tool call budget used up")
    assert (refused.attempts, refused.is_model_error) == (0, True)
    assert rollout.stop_reason is StopReason.COMPLETED
    assert rollout.messages[-1].content == ANSWER


def test_of_several_calls_the_first_that_fit_are_made(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    tools = FunctionTools(echo)
    calls = [tool_call_text("search", f'{{"q": {n}}}') for n in range(4)]
    setup = make_setup([calls[0], "".join(calls[1:]), ANSWER], tools=tools, budgets=Budgets(max_tool_calls=3))
    rollout = run(row, key, setup)
    assert [call.arguments for call, _ in tools.calls] == ['{"q": 0}', '{"q": 1}', '{"q": 2}']
    assert [result.error_code for result in rollout.trace.turns[1].results] == [None, None, "tool_budget_used_up"]


def test_a_policy_that_never_stops_is_cut(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    tools, grader = FunctionTools(echo), FunctionGrader(one)
    setup = make_setup([SEARCH] * 50, tools=tools, grader=grader, budgets=Budgets(max_tool_calls=10))
    rollout = run(row, key, setup)
    assert rollout.stop_reason is StopReason.MAX_TOOL_CALLS
    assert len(tools.calls) == 10
    assert len(rollout.trace.turns) == 12  # Ten calls, the refused one, the last turn.
    assert rollout.trace.turns[-1].results == ()
    assert len(grader.graded) == 1


def test_max_turns(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    tools = FunctionTools(echo)
    rollout = run(row, key, make_setup([SEARCH] * 9, tools=tools, budgets=Budgets(max_turns=3)))
    assert rollout.stop_reason is StopReason.MAX_TURNS
    assert len(rollout.trace.turns) == len(tools.calls) == 3
    assert rollout.messages[-1].role is Role.TOOL
    assert isinstance(rollout.outcome, Grade)


def test_max_tokens_cuts_in_the_middle_of_a_turn(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    grader = FunctionGrader(one)
    rollout = run(row, key, make_setup([ANSWER], grader=grader, budgets=Budgets(max_tokens=6)))
    assert rollout.stop_reason is StopReason.MAX_TOKENS
    assert rollout.trace.sampled_tokens == 6
    assert rollout.messages[-1].content == "The an"
    assert grader.graded[0][0].finish_reason == "length"


def test_max_tokens_counts_over_all_turns(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    turn_tokens = len(chat_format.tokenizer.encode(SEARCH)) + 1
    rollout = run(row, key, make_setup([SEARCH] * 9, budgets=Budgets(max_tokens=2 * turn_tokens + 3)))
    assert rollout.stop_reason is StopReason.MAX_TOKENS
    assert [turn.completion_tokens for turn in rollout.trace.turns] == [turn_tokens, turn_tokens, 3]


def test_a_whole_call_at_the_very_end_of_the_tokens_is_made(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    tools = FunctionTools(echo)
    turn_tokens = len(chat_format.tokenizer.encode(SEARCH)) + 1
    rollout = run(row, key, make_setup([SEARCH] * 9, tools=tools, budgets=Budgets(max_tokens=turn_tokens)))
    assert rollout.stop_reason is StopReason.MAX_TOKENS
    assert len(tools.calls) == 1
    assert rollout.messages[-1].role is Role.TOOL
    assert len(rollout.trace.spans) == 1  # What no turn follows is not in the trace.


def test_a_truncated_turn_runs_no_tools(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    tools = FunctionTools(echo)
    whole_call = len(chat_format.tokenizer.encode(SEARCH))  # Everything but the stop token fits.
    rollout = run(row, key, make_setup([SEARCH], tools=tools, budgets=Budgets(max_tokens=whole_call)))
    assert rollout.stop_reason is StopReason.MAX_TOKENS
    assert tools.calls == []
    assert len(rollout.trace.turns[0].tool_calls) == 1
    assert isinstance(rollout.outcome, Grade)


def test_context_full_between_turns(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    async def long_page(call: ToolCall, trace_id: str) -> str:
        return "x" * 1000

    prompt = len(chat_format.prompt_ids(row.messages, row.tools))
    setup = make_setup([SEARCH, ANSWER], tools=FunctionTools(long_page), max_context_tokens=prompt + 500)
    rollout = run(row, key, setup)
    assert rollout.stop_reason is StopReason.CONTEXT_FULL
    assert len(rollout.trace.turns) == 1
    assert rollout.messages[-1].content == "x" * 1000
    assert len(rollout.trace.token_ids) <= prompt + 500


@pytest.mark.parametrize(("room", "stop_reason"), [(0, StopReason.CONTEXT_FULL), (1, StopReason.COMPLETED)])
def test_one_token_of_room_is_enough_for_a_turn(
    row: DatasetRow,
    key: RolloutKey,
    make_setup: MakeSetup,
    chat_format: HermesChatFormat,
    room: int,
    stop_reason: StopReason,
) -> None:
    prompt = len(chat_format.prompt_ids(row.messages, row.tools))
    rollout = run(row, key, make_setup([""], max_context_tokens=prompt + room))
    assert rollout.stop_reason is stop_reason
    assert len(rollout.trace.turns) == room


def test_a_turn_cut_by_the_context_says_so(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    prompt = len(chat_format.prompt_ids(row.messages, row.tools))
    rollout = run(row, key, make_setup([ANSWER], max_context_tokens=prompt + 5))
    assert rollout.stop_reason is StopReason.CONTEXT_FULL
    assert rollout.trace.sampled_tokens == 5


STOPS: dict[StopReason, tuple[list[str], Budgets, int]] = {
    StopReason.COMPLETED: ([ANSWER], Budgets(), 8192),
    StopReason.TOOL_CALLS: ([SEARCH], Budgets(), 8192),
    StopReason.MAX_TURNS: ([SEARCH] * 3, Budgets(max_turns=2), 8192),
    StopReason.MAX_TOOL_CALLS: ([SEARCH] * 3, Budgets(max_tool_calls=1), 8192),
    StopReason.MAX_TOKENS: ([ANSWER], Budgets(max_tokens=2), 8192),
    StopReason.CONTEXT_FULL: ([ANSWER], Budgets(), 8),
}


@pytest.mark.parametrize("stop_reason", list(StopReason))
def test_every_stop_reason_is_reached_and_graded(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, stop_reason: StopReason
) -> None:
    turns, budgets, context = STOPS[stop_reason]
    is_answered = stop_reason is not StopReason.TOOL_CALLS
    setup = make_setup(turns, budgets=budgets, max_context_tokens=context, has_tool_servers=is_answered)
    rollout = run(row, key, setup)
    assert rollout.stop_reason is stop_reason
    assert isinstance(rollout.outcome, Grade)


def test_time_is_split_by_who_held_the_rollout(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    async def slow_tool(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(5)
        return "found"

    async def slow_score(trace: FinishedTrace, trace_id: str) -> float:
        await asyncio.sleep(11)
        return 0.5

    turns = [SEARCH, ANSWER]
    sampler = ScriptedSampler(chat_format.tokenizer, lambda _, prompt: turns["found" in prompt], latency=lambda _: 2.0)
    rollout = run(row, key, make_setup(sampler, tools=FunctionTools(slow_tool), grader=FunctionGrader(slow_score)))
    assert (rollout.sampling_s, rollout.tools_s, rollout.grading_s) == pytest.approx((4.0, 5.0, 11.0))
    assert rollout.duration_s == pytest.approx(20.0)
    assert [(turn.sampling_s, turn.tools_s) for turn in rollout.trace.turns] == [(2.0, 5.0), (2.0, 0.0)]


def test_the_same_key_replays_the_same_rollout(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    def fake() -> FakeSampler:
        return FakeSampler(
            vocabulary=chat_format.tokenizer.encode("abcdef"),
            stop_token_id=chat_format.stop_token_ids[0],
            set_pieces=[chat_format.tokenizer.encode(SEARCH)],
            set_piece_share=0.8,
        )

    first, second = (run(row, key, make_setup(fake(), draw_trace_id=trace_ids())) for _ in range(2))
    assert first.trace == second.trace
    assert first.messages == second.messages
    third = run(row, key, make_setup(fake()))
    assert (third.trace.token_ids, third.trace.logprobs_T) == (first.trace.token_ids, first.trace.logprobs_T)
    assert third.trace_id != first.trace_id
    other = run(row, key.model_copy(update={"attempt": 1}), make_setup(fake()))
    assert other.trace.completion_ids_T != first.trace.completion_ids_T
