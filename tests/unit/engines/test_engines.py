"""The engines in this process: the contract, and what is theirs alone."""

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import PreTrainedTokenizerBase

from rft.engines.base import Engine
from rft.engines.paged_engine import PagedEngine
from rft.engines.slot_engine import SlotEngine
from rft.rollouts.sampler import SampleProgress
from tests.shared.by_hand import tiny_model
from tests.shared.engine_contract import (
    CONTEXT_TOKENS,
    EngineContract,
    MakeModel,
    adapter,
    ask,
    plain_logprobs,
    random_prompt,
)


@pytest.fixture
def make_model(tokenizer: PreTrainedTokenizerBase) -> MakeModel:
    return lambda: tiny_model(tokenizer)


class TestSlots(EngineContract):
    @pytest.fixture
    async def engine(self, make_model: MakeModel) -> AsyncIterator[Engine]:
        engine = SlotEngine(make_model(), max_context_tokens=CONTEXT_TOKENS)
        yield engine
        await engine.close()


class TestSlotsOfSeveralVersions(EngineContract):
    @pytest.fixture
    async def engine(self, make_model: MakeModel) -> AsyncIterator[Engine]:
        engine = SlotEngine(make_model(), max_context_tokens=CONTEXT_TOKENS, has_versions=True)
        yield engine
        await engine.close()


class TestPages(EngineContract):
    @pytest.fixture
    async def engine(self, make_model: MakeModel) -> AsyncIterator[Engine]:
        engine = PagedEngine(make_model(), max_context_tokens=CONTEXT_TOKENS)
        yield engine
        await engine.close()


async def test_rollouts_of_a_group_share_their_long_prompt(tokenizer: PreTrainedTokenizerBase) -> None:
    engine = SlotEngine(tiny_model(tokenizer), max_context_tokens=256)
    reference = tiny_model(tokenizer).eval()
    prompt = random_prompt(9, 200)
    samples = await asyncio.gather(*(engine.sample(ask(prompt, seed=seed)) for seed in range(8)))
    await engine.close()
    for sample in samples:
        expected = plain_logprobs(reference, prompt, sample.token_ids)
        assert torch.tensor(sample.logprobs).sub(expected).abs().max() <= 1e-5


async def test_tokens_are_told_as_they_come_and_are_those_of_the_sample(tokenizer: PreTrainedTokenizerBase) -> None:
    engine = SlotEngine(tiny_model(tokenizer), max_context_tokens=256)
    heard: list[tuple[int, float]] = []
    progress = SampleProgress(on_tokens=lambda ids, logprobs: heard.extend(zip(ids, logprobs, strict=True)))
    sample = await engine.sample(replace(ask(random_prompt(9, 20), max_tokens=30, stop=()), progress=progress))
    await engine.close()
    assert heard == list(zip(sample.token_ids, sample.logprobs, strict=True))


async def test_more_conversations_than_slots_wait_for_their_turn(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.engines.slot_fit._MAX_SLOTS", 4)
    engine = SlotEngine(tiny_model(tokenizer), max_context_tokens=256)
    reference = tiny_model(tokenizer).eval()
    prompts = [random_prompt(i, 10 + i) for i in range(20)]
    samples = await asyncio.gather(*(engine.sample(ask(prompt, seed=i)) for i, prompt in enumerate(prompts)))
    await engine.close()
    for prompt, sample in zip(prompts, samples, strict=True):
        expected = plain_logprobs(reference, prompt, sample.token_ids)
        assert torch.tensor(sample.logprobs).sub(expected).abs().max() <= 1e-5


def test_the_adapter_reads_back_as_peft(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    adapted = adapter(tmp_path / "a", lambda: tiny_model(tokenizer), seed=1)
    again = PeftModel.from_pretrained(tiny_model(tokenizer), str(tmp_path / "a")).eval()
    prompt = random_prompt(1, 6)
    torch.testing.assert_close(plain_logprobs(adapted, prompt, (9, 8)), plain_logprobs(again, prompt, (9, 8)))


async def test_what_was_given_up_is_not_answered_when_the_engine_closes(tokenizer: PreTrainedTokenizerBase) -> None:
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context["message"]))
    engine = SlotEngine(tiny_model(tokenizer), max_context_tokens=256)
    given_up = [asyncio.create_task(engine.sample(ask([30, 31], seed=i, max_tokens=200, stop=()))) for i in range(4)]
    await asyncio.sleep(0)
    assert all([task.cancel() for task in given_up])
    await engine.close()
    await asyncio.gather(*given_up, return_exceptions=True)
    del given_up
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []
