"""The engines say when a request leaves their queue, so that rollouts are not blamed for waiting in it."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, cast

import pytest
from transformers import PreTrainedTokenizerBase
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.errors import SamplerError
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout
from rft.core.spec import Budgets
from rft.engines import paged_engine, slot_fit
from rft.engines.base import Engine
from rft.engines.paged_engine import PagedEngine
from rft.engines.slot_engine import SlotEngine
from rft.engines.tokenizer import ChatTokenizer
from rft.rollouts.executor import run_step
from rft.rollouts.group import StepRow
from rft.rollouts.sampler import SampleProgress, SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from tests.shared.by_hand import tiny_model

PLACES = 4
PASS_S = 0.01


class MakeEngine(Protocol):
    def __call__(self, *, pass_s: float = PASS_S) -> Engine: ...


@pytest.fixture
def passes() -> list[float]:
    """When each pass of the engine began."""
    return []


@pytest.fixture(params=["slots", "pages"])
def make_engine(
    request: pytest.FixtureRequest,
    tokenizer: PreTrainedTokenizerBase,
    passes: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> MakeEngine:
    """An engine of four places whose passes take their time."""
    monkeypatch.setattr(slot_fit, "_MAX_SLOTS", PLACES)
    monkeypatch.setattr(paged_engine, "REQUESTS_PER_PASS", PLACES)

    def make(*, pass_s: float = PASS_S) -> Engine:
        def slow(*_: object) -> None:
            passes.append(time.monotonic())
            time.sleep(pass_s)

        model = tiny_model(tokenizer)
        model.model.embed_tokens.register_forward_hook(slow)
        return (SlotEngine if request.param == "slots" else PagedEngine)(model, max_context_tokens=512)

    return make


async def no_tool(call: ToolCall, trace_id: str) -> str:
    return "nothing"


async def score_one(trace: FinishedTrace, trace_id: str) -> float:
    return 1.0


def row() -> DatasetRow:
    parsed = parse_row('{"messages": [{"role": "user", "content": "Say something."}]}', line_number=1, index=0)
    assert isinstance(parsed, DatasetRow)
    return parsed


@pytest.mark.lengthy
def test_more_rollouts_than_places_all_end_in_time(make_engine: MakeEngine, tokenizer: PreTrainedTokenizerBase) -> None:
    """48 rollouts of 4 passes in 4 places wait for each other longer than each may take: far longer than it needs."""
    deadline_s, pass_s = 8.0, 0.2
    chat_format = HermesChatFormat(ChatTokenizer(tokenizer, (cast(int, tokenizer.eos_token_id),)))
    ended: list[Rollout] = []

    async def main() -> None:
        engine = make_engine(pass_s=pass_s)
        setup = RolloutSetup(
            sampler=engine,
            chat_format=chat_format,
            tools=FunctionTools(no_tool),
            grader=FunctionGrader(score_one),
            grader_name="grader",
            budgets=Budgets(max_tokens=4, deadline_s=deadline_s),
            temperature=1.0,
            model_name="tiny",
        )
        try:
            await run_step(
                [StepRow(row(), 0)],
                setup=setup,
                job_id="job",
                job_seed=1,
                step=1,
                group_size=48,
                replacement_share=0.0,
                on_rollout=lambda rollout, was_replaced: ended.append(rollout),
            )
        finally:
            await engine.close()

    asyncio.run(main())
    assert [rollout.outcome for rollout in ended if rollout.reward is None] == []
    assert max(rollout.duration_s for rollout in ended) > deadline_s, "counted, the waiting would have struck"


def request(name: str, progress: SampleProgress, *, max_tokens: int = 480) -> SampleRequest:
    return SampleRequest(name, [30, 31, 32], max_tokens, (), seed=1, progress=progress)


def test_a_cancelled_request_tells_how_far_it_came_and_one_in_the_queue_that_it_never_began(
    make_engine: MakeEngine, passes: list[float]
) -> None:
    queued: set[int] = set()

    def progress(number: int) -> SampleProgress:
        @contextmanager
        def waiting() -> Generator[None]:
            queued.add(number)
            yield
            queued.discard(number)

        return SampleProgress(waiting)

    def some_passes_with_two_in_the_queue() -> None:
        while len(queued) != 2 or len(passes) < 10:
            time.sleep(PASS_S)

    async def main() -> None:
        engine = make_engine()
        try:
            told = [progress(number) for number in range(PLACES + 2)]
            tasks = [asyncio.create_task(engine.sample(request(f"r{i}", told[i]))) for i in range(PLACES + 2)]
            await asyncio.to_thread(some_passes_with_two_in_the_queue)
            assert queued == {PLACES, PLACES + 1}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert all(0 < told[i].sampled_tokens < 480 for i in range(PLACES))
            assert [told[i].sampled_tokens for i in (PLACES, PLACES + 1)] == [0, 0]
        finally:
            await engine.close()

    asyncio.run(main())


def test_closing_the_engine_ends_the_wait_in_its_queue(make_engine: MakeEngine) -> None:
    async def main() -> None:
        engine = make_engine()
        tasks = [asyncio.create_task(engine.sample(request(f"r{i}", SampleProgress()))) for i in range(PLACES + 2)]
        await asyncio.sleep(5 * PASS_S)
        await engine.close()
        ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        assert all(isinstance(outcome, SamplerError) for outcome in ended)

    asyncio.run(main())


def test_closing_ends_the_wait_of_a_request_that_the_manager_lost(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        return None

    monkeypatch.setattr(ContinuousBatchingManager, "_fail_all_remaining_requests", lose)

    async def main() -> None:
        engine = PagedEngine(tiny_model(tokenizer), max_context_tokens=512)
        waiting = asyncio.create_task(engine.sample(request("lost", SampleProgress())))
        await asyncio.sleep(0)
        await engine.close()
        with pytest.raises(SamplerError):
            await asyncio.wait_for(waiting, 30)

    asyncio.run(main())
