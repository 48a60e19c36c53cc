"""A server that keys everything by `trace_id` and frees nothing: a perfect policy earns 1.0 however often it begins."""

import asyncio
import json

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow, parse_row
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_oracle import OracleSampler
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.stateful import BoxOffice, order_of_seat, perfect_plan
from tests.unit.rollouts.conftest import MakeSetup

GROUP, ROWS = 4, 5


class Till:
    """The box office's grader as the loop asks it."""

    def __init__(self, office: BoxOffice) -> None:
        self.office = office

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        del trace
        return Grade(reward=self.office.grade({"item": item, "trace_id": trace_id}), grader="till")


def seats() -> list[DatasetRow]:
    parsed = [parse_row(json.dumps(order_of_seat(i)), line_number=i + 1, index=i) for i in range(ROWS)]
    return [row for row in parsed if isinstance(row, DatasetRow)]


@pytest.fixture
def office() -> BoxOffice:
    return BoxOffice()


@pytest.fixture
def setup(office: BoxOffice, make_setup: MakeSetup, chat_format: HermesChatFormat) -> RolloutSetup:
    async def answer(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(1.0)
        return office.call({"name": call.name, "arguments": call.arguments, "trace_id": trace_id})

    sampler = OracleSampler(seats(), perfect_plan, chat_format)
    return make_setup(sampler, tools=FunctionTools(answer), grader=Till(office))


async def step(setup: RolloutSetup, *, replacement_share: float = 0.0) -> StepRollouts:
    return await run_step(
        [StepRow(row, 0) for row in seats()],
        setup=setup,
        job_id="ftjob-1",
        job_seed=5,
        step=2,
        group_size=GROUP,
        replacement_share=replacement_share,
        on_rollout=lambda rollout, was_replaced: None,
    )


def rewards(done: StepRollouts) -> list[float | None]:
    return [rollout.reward for group in done.groups for rollout in group.rollouts]


@pytest.mark.parametrize("struck_s", [0.5, 1.5, 2.5])
def test_a_step_that_is_cut_off_and_begun_anew(office: BoxOffice, setup: RolloutSetup, struck_s: float) -> None:
    async def main() -> StepRollouts:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(struck_s):
                await step(setup)
        return await step(setup)

    done = run_in_virtual_time(main())
    assert rewards(done) == [1.0] * GROUP * ROWS
    assert len(office.worlds) >= GROUP * ROWS


def test_a_step_that_ended_and_is_done_again(office: BoxOffice, setup: RolloutSetup) -> None:
    async def main() -> list[StepRollouts]:
        return [await step(setup) for _ in range(3)]

    first, *others = run_in_virtual_time(main())
    assert rewards(first) == [1.0] * GROUP * ROWS
    assert [rewards(other) for other in others] == [rewards(first)] * 2
    assert len(office.worlds) == 3 * GROUP * ROWS
    tokens = [[one.trace.token_ids for group in done.groups for one in group.rollouts] for done in (first, *others)]
    assert tokens[0] == tokens[1] == tokens[2], "what the model reads and writes does not depend on the ids"


def test_replacements_of_rollouts_that_failed_half_way(
    office: BoxOffice, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    paid: list[str] = []

    async def answer(call: ToolCall, trace_id: str) -> str | Failure:
        paid.extend([trace_id] if call.name == "pay" else [])
        if call.name == "pay" and len(paid) <= 4:
            return Failure(stage=Stage.TOOL, code=FailureCode.SERVER_ERROR, message="down", endpoint="pay")
        return office.call({"name": call.name, "arguments": call.arguments, "trace_id": trace_id})

    sampler = OracleSampler(seats(), perfect_plan, chat_format)
    setup = make_setup(sampler, tools=FunctionTools(answer), grader=Till(office))
    done = run_in_virtual_time(step(setup, replacement_share=0.2))
    assert rewards(done) == [1.0] * GROUP * ROWS
    assert len(done.replaced) == 4
