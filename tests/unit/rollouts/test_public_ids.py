"""Who is shown which id: customers one that no conversation had before, the model one that a replay has again."""

import asyncio
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.events import RolloutBegan
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout, RolloutKey
from rft.grader_gateway.contract import to_sample
from rft.rollouts.loop import PendingGrade, run_and_grade, run_rollout
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.samplers_tokenizer import ByteTokenizer
from tests.unit.rollouts.conftest import MakeSetup

SEARCH = tool_call_text("search", '{"q": 1}')
TURNS = [SEARCH + SEARCH, SEARCH, "The answer is 4."]
PUBLIC = re.compile(r"trace_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class PrintsCallIds(ByteTokenizer):
    """Its template shows the model which call a result answers, as Mistral's does."""

    def render(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject], *, add_generation_prompt: bool
    ) -> str:
        shown = [
            {**message, "content": f"{message['tool_call_id']}: {message['content']}"}
            if message["role"] == "tool"
            else message
            for message in messages
        ]
        return super().render(shown, tools, add_generation_prompt=add_generation_prompt)


@dataclass(slots=True)
class Seen:
    """Everything customers were sent."""

    tools: FunctionTools = field(init=False)
    grader: FunctionGrader = field(init=False)
    begun: list[RolloutBegan] = field(default_factory=list[RolloutBegan])

    async def note(self, began: RolloutBegan) -> None:
        self.begun.append(began)

    def __post_init__(self) -> None:
        self.tools, self.grader = FunctionTools(self._answer), FunctionGrader(self._judge)

    async def _answer(self, call: ToolCall, trace_id: str) -> str:
        return f"{len(self.tools.calls)} calls"

    async def _judge(self, trace: FinishedTrace, trace_id: str) -> float:
        return 1.0


def converse(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> tuple[Rollout, Seen]:
    chat_format, seen = HermesChatFormat(PrintsCallIds()), Seen()
    sampler = ScriptedSampler(
        chat_format.tokenizer, lambda _, prompt: TURNS[prompt.count("<|im_start|>assistant\n") - 1]
    )
    setup = make_setup(sampler, tools=seen.tools, grader=seen.grader, on_begun=seen.note, prints=chat_format)
    return run_in_virtual_time(run_rollout(row, key, setup)), seen


def test_a_conversation_that_begins_anew_has_new_ids_for_customers_and_the_old_tokens_for_the_model(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    (first, told), (again, told_again) = (converse(row, key, make_setup) for _ in range(2))
    assert first.trace.token_ids == again.trace.token_ids
    assert first.trace.logprobs_T == again.trace.logprobs_T
    ids = {first.trace_id, again.trace_id}
    assert len(ids) == 2
    assert all(PUBLIC.fullmatch(one) for one in ids)
    sent, sent_again = ({call.call_id for call, _ in seen.tools.calls} for seen in (told, told_again))
    assert len(sent | sent_again) == 6


def test_what_the_model_reads_is_no_id_that_a_customer_was_sent(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    rollout, seen = converse(row, key, make_setup)
    read = PrintsCallIds().decode(rollout.trace.token_ids)
    printed = re.findall(r"<tool_response>\n(call_\w+): (\d) calls", read)
    assert [place for _, place in printed] == ["1", "2", "3"]
    assert len({shown for shown, _ in printed}) == 3, "or the model could not tell its calls apart"
    assert not any(call.call_id in read for call, _ in seen.tools.calls)
    assert rollout.trace_id not in read


def test_tools_grader_and_records_name_a_call_alike(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    rollout, seen = converse(row, key, make_setup)
    digits = uuid.UUID(rollout.trace_id.removeprefix("trace_")).hex
    wanted = [f"call_{digits}_0_0", f"call_{digits}_0_1", f"call_{digits}_1_0"]
    assert [call.call_id for call, _ in seen.tools.calls] == wanted
    assert {trace_id for _, trace_id in seen.tools.calls} == {rollout.trace_id}
    ((graded, graded_as),) = seen.grader.graded
    assert graded_as == rollout.trace_id
    sample = str(to_sample(graded))
    assert [sample.count(f"'id': '{one}'") for one in wanted] == [2, 2, 2], "in `output_tools` and in `trace`"
    assert [sample.count(f"'tool_call_id': '{one}'") for one in wanted] == [1, 1, 1]
    assert [call.call_id for message in rollout.messages for call in message.tool_calls] == wanted
    assert [message.tool_call_id for message in rollout.messages if message.tool_call_id] == wanted
    assert [call.call_id for turn in rollout.trace.turns for call in turn.tool_calls] == wanted
    assert [result.call_id for turn in rollout.trace.turns for result in turn.results] == wanted


def test_a_conversation_is_told_of_before_anybody_outside_hears_of_it(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    begun: list[RolloutBegan] = []

    async def note(began: RolloutBegan) -> None:
        await asyncio.sleep(5.0)
        begun.append(began)

    async def answer(call: ToolCall, trace_id: str) -> str:
        assert [one.trace_id for one in begun] == [trace_id]
        return "here"

    setup = make_setup(TURNS, tools=FunctionTools(answer), on_begun=note)
    rollout = run_in_virtual_time(run_rollout(row, key, setup))
    assert begun == [RolloutBegan(key=key, trace_id=rollout.trace_id, policy_version=0)]
    assert isinstance(rollout.outcome, Grade)


def test_a_rollout_that_only_lacks_its_grade_keeps_its_id(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    judged: list[str] = []

    async def judge(trace: FinishedTrace, trace_id: str) -> float | Failure:
        judged.append(trace_id)
        down = Failure(stage=Stage.GRADER, code=FailureCode.CONNECT_ERROR, message="down", endpoint="grader")
        return down if len(judged) < 3 else 1.0

    seen = Seen()

    async def main() -> Rollout:
        setup = make_setup(TURNS, grader=FunctionGrader(judge), on_begun=seen.note)
        ended = await run_and_grade(row, key, setup)
        while isinstance(ended, PendingGrade):
            await asyncio.sleep(1.0)
            ended = await ended.grade_again()
        return ended

    rollout = run_in_virtual_time(main())
    assert rollout.reward == 1.0
    assert judged == [rollout.trace_id] * 3
    assert len(seen.begun) == 1


def test_a_beginning_that_cannot_be_told_stops_the_rollout_before_its_first_call(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    async def full(began: RolloutBegan) -> None:
        raise OSError(28, "No space left on device")

    tools = FunctionTools(Seen().tools.answer)
    with pytest.raises(OSError, match="No space"):
        run_in_virtual_time(run_rollout(row, key, make_setup(TURNS, tools=tools, on_begun=full)))
    assert tools.calls == []
