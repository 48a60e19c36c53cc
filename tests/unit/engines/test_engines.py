"""The engines in this process: the contract, and what is theirs alone."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase

from rft.core.errors import SamplerError
from rft.engines.base import Engine
from rft.engines.paged_engine import PagedEngine, cache_tokens
from rft.engines.slot_engine import SlotEngine
from rft.rollouts.sampler import SampleProgress
from tests.shared.by_hand import tiny_model
from tests.shared.engine_contract import (
    CONTEXT_TOKENS,
    ComputedHereContract,
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


class TestSlots(EngineContract, ComputedHereContract):
    @pytest.fixture
    async def engine(self, make_model: MakeModel) -> AsyncIterator[Engine]:
        engine = SlotEngine(make_model(), max_context_tokens=CONTEXT_TOKENS)
        yield engine
        await engine.close()


class TestSlotsOfSeveralVersions(EngineContract, ComputedHereContract):
    @pytest.fixture
    async def engine(self, make_model: MakeModel) -> AsyncIterator[Engine]:
        engine = SlotEngine(make_model(), max_context_tokens=CONTEXT_TOKENS, has_versions=True)
        yield engine
        await engine.close()


class TestPages(EngineContract, ComputedHereContract):
    @pytest.fixture
    async def engine(self, make_model: MakeModel) -> AsyncIterator[Engine]:
        engine = PagedEngine(make_model(), max_context_tokens=CONTEXT_TOKENS)
        yield engine
        await engine.close()


@pytest.mark.parametrize("context", [1, 33, 512, 2048, 16_384, 1_000_000])
def test_pages_hold_what_two_passes_may_fill_and_no_more_than_there_is_room_for(context: int) -> None:
    tokens = cache_tokens(context)
    assert tokens % 32 == 0
    assert tokens == 65_536 or 32 * context <= tokens < 32 * context + 32


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


def truncated(adapter_dir: Path) -> None:
    weights = adapter_dir / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def of_a_larger_model(adapter_dir: Path) -> None:
    change_tensors(adapter_dir, lambda name, tensor: (name, torch.cat([tensor, tensor])))


def of_other_layers(adapter_dir: Path) -> None:
    change_tensors(adapter_dir, lambda name, tensor: (name.replace("layers.1.", "layers.9."), tensor))


def without_second_matrices(adapter_dir: Path) -> None:
    change_tensors(adapter_dir, lambda name, tensor: (name.replace("lora_B", "lora_C"), tensor))


def change_tensors(adapter_dir: Path, change: Callable[[str, torch.Tensor], tuple[str, torch.Tensor]]) -> None:
    weights = adapter_dir / "adapter_model.safetensors"
    save_file(dict(change(name, tensor) for name, tensor in load_file(weights).items()), weights)


@pytest.mark.lengthy
@pytest.mark.parametrize("damage", [truncated, of_a_larger_model, of_other_layers, without_second_matrices])
@pytest.mark.parametrize("make_engine", [SlotEngine, partial(SlotEngine, has_versions=True), PagedEngine])
async def test_an_adapter_that_does_not_fit_is_refused_in_words_and_the_last_one_is_sampled_from_as_before(
    make_engine: Callable[..., Engine],
    damage: Callable[[Path], None],
    tokenizer: PreTrainedTokenizerBase,
    tmp_path: Path,
) -> None:
    for version in (1, 2, 3):
        adapter(tmp_path / f"v{version}", lambda: tiny_model(tokenizer), seed=version)
    damage(tmp_path / "v2")
    engine, prompt = make_engine(tiny_model(tokenizer), max_context_tokens=CONTEXT_TOKENS), random_prompt(1, 8)
    try:
        await engine.publish(1, tmp_path / "v1")
        before = await engine.sample(ask(prompt))
        with pytest.raises(SamplerError, match="the adapter"):
            async with asyncio.timeout(120):
                await engine.publish(2, tmp_path / "v2")
        assert engine.policy_version == 1
        assert await engine.sample(ask(prompt)) == before
        await engine.publish(3, tmp_path / "v3")
        assert (await engine.sample(ask(prompt))).logprobs != before.logprobs
    finally:
        await engine.close()


@pytest.mark.parametrize("has_versions", [False, True])
async def test_whatever_breaks_while_an_adapter_is_loaded_is_told_and_the_engine_goes_on(
    has_versions: bool, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    adapter(tmp_path / "v1", lambda: tiny_model(tokenizer), seed=1)
    (tmp_path / "v1/adapter_config.json").write_text("[]")
    engine = SlotEngine(tiny_model(tokenizer), max_context_tokens=CONTEXT_TOKENS, has_versions=has_versions)
    with pytest.raises(SamplerError, match="the engine failed: AttributeError"):
        async with asyncio.timeout(120):
            await engine.publish(1, tmp_path / "v1")
    assert len((await engine.sample(ask([30, 31], max_tokens=2, stop=()))).token_ids) == 2
    await engine.close()


async def test_an_adapter_that_nobody_waits_for_any_more_does_not_stop_the_engine(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    adapter(tmp_path / "v1", lambda: tiny_model(tokenizer), seed=1)
    engine = SlotEngine(tiny_model(tokenizer), max_context_tokens=CONTEXT_TOKENS)
    for _ in range(20):  # Sometimes the engine has begun with it.
        publishing = asyncio.create_task(engine.publish(1, tmp_path / "v1"))
        await asyncio.sleep(0)
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
    async with asyncio.timeout(120):
        await engine.publish(2, tmp_path / "v1")
        assert len((await engine.sample(ask([30, 31], max_tokens=2, stop=()))).token_ids) == 2
    await engine.close()
