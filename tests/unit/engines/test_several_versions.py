"""One engine, several policy versions at once: each conversation goes on under its own."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.core.errors import SamplerError
from rft.engines.slot_engine import SlotEngine
from rft.rollouts.sampler import Sample
from tests.shared.by_hand import tiny_model
from tests.shared.engine_contract import CONTEXT_TOKENS, MakeModel, adapter, ask, plain_logprobs, random_prompt

VERSIONS = (1, 2, 3)


@pytest.fixture
def make_model(tokenizer: PreTrainedTokenizerBase) -> MakeModel:
    return lambda: tiny_model(tokenizer)


@pytest.fixture
async def engine(make_model: MakeModel) -> AsyncIterator[SlotEngine]:
    engine = SlotEngine(make_model(), max_context_tokens=CONTEXT_TOKENS, has_versions=True)
    yield engine
    await engine.close()


@pytest.fixture
def adapted(make_model: MakeModel, tmp_path: Path) -> dict[int, torch.nn.Module]:
    """The model under each version; version 0 is the base model."""
    adapters = {version: adapter(tmp_path / f"v{version}", make_model, seed=version) for version in VERSIONS}
    return {0: make_model().eval(), **adapters}


def gap(model: torch.nn.Module, prompt: list[int], sample: Sample) -> float:
    expected = plain_logprobs(model, prompt, sample.token_ids)
    return float(torch.tensor(sample.logprobs).sub(expected).abs().max())


async def test_conversations_of_all_versions_share_passes_and_each_samples_from_its_own(
    engine: SlotEngine, adapted: dict[int, torch.nn.Module], tmp_path: Path
) -> None:
    engine.rollout_began("r0", 0)
    for version in VERSIONS:
        await engine.publish(version, tmp_path / f"v{version}")
        engine.rollout_began(f"r{version}", version)
    # The same prompt for all of them: what one version computed of it is of no use to another.
    prompt = random_prompt(5, 150)
    requests = [replace(ask(prompt, seed=9), rollout_id=f"r{v}", policy_version=v) for v in adapted]
    for _ in range(2):
        samples = await asyncio.gather(*(engine.sample(request) for request in requests))
        assert max(gap(adapted[v], prompt, sample) for v, sample in zip(adapted, samples, strict=True)) <= 1e-5
        first = [sample.logprobs[0] for sample in samples]
        assert len(set(first)) == len(adapted), "the versions differ"


async def test_a_conversation_goes_on_while_newer_versions_are_published(
    engine: SlotEngine, adapted: dict[int, torch.nn.Module], tmp_path: Path
) -> None:
    await engine.publish(1, tmp_path / "v1")
    engine.rollout_began("old", 1)
    prompt = random_prompt(6, 20)
    request = replace(ask(prompt, max_tokens=200, stop=()), rollout_id="old", policy_version=1)
    under_way = asyncio.create_task(engine.sample(request))
    for version in (2, 3):
        await engine.publish(version, tmp_path / f"v{version}")
    newer = await engine.sample(ask(prompt))
    sample = await under_way
    assert gap(adapted[1], prompt, sample) <= 1e-5
    assert gap(adapted[3], prompt, newer) <= 1e-5
    follows = [*prompt, *sample.token_ids[:10], *random_prompt(7, 5)]
    turn = await engine.sample(replace(ask(follows), rollout_id="old", policy_version=1))
    assert gap(adapted[1], follows, turn) <= 1e-5


async def test_a_version_is_kept_for_as_long_as_a_rollout_has_it_and_no_longer(
    engine: SlotEngine, adapted: dict[int, torch.nn.Module], tmp_path: Path
) -> None:
    await engine.publish(1, tmp_path / "v1")
    engine.rollout_began("a", 1)
    engine.rollout_began("b", 1)
    await engine.publish(2, tmp_path / "v2")
    engine.rollout_ended("a")
    await engine.sample(replace(ask([30, 31]), rollout_id="b", policy_version=1))
    engine.rollout_ended("b")
    with pytest.raises(SamplerError, match="version 1 is not served any more"):
        engine.rollout_began("c", 1)
    with pytest.raises(SamplerError, match="version 1 is not served any more"):
        await engine.sample(replace(ask([30, 31]), policy_version=1))
    # What is left is computed as if the other one had never been.
    prompt = random_prompt(8, 30)
    assert gap(adapted[2], prompt, await engine.sample(ask(prompt))) <= 1e-5


async def test_an_engine_of_one_version_takes_no_other_while_it_samples(
    adapted: dict[int, torch.nn.Module], make_model: MakeModel, tmp_path: Path
) -> None:
    engine = SlotEngine(make_model(), max_context_tokens=CONTEXT_TOKENS)
    under_way = asyncio.create_task(engine.sample(ask([30, 31], max_tokens=200, stop=())))
    await asyncio.sleep(0)
    with pytest.raises(SamplerError, match="while samples are in flight"):
        await engine.publish(1, tmp_path / "v1")
    await under_way
    await engine.publish(1, tmp_path / "v1")
    with pytest.raises(SamplerError, match="version 0 is not served any more"):
        engine.rollout_began("late", 0)
    await engine.close()


async def test_an_engine_of_one_version_takes_another_as_soon_as_nobody_waits_for_its_samples(
    adapted: dict[int, torch.nn.Module], make_model: MakeModel, tmp_path: Path
) -> None:
    model, passes = make_model(), count()
    is_under_way, may_go_on = threading.Event(), threading.Event()

    def hold_the_second(*_: object) -> None:
        if next(passes) == 1:
            is_under_way.set()
            may_go_on.wait()

    model.get_input_embeddings().register_forward_hook(hold_the_second)
    engine = SlotEngine(model, max_context_tokens=CONTEXT_TOKENS)
    given_up = asyncio.create_task(engine.sample(ask([30, 31], max_tokens=200, stop=())))
    await asyncio.to_thread(is_under_way.wait)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    published = asyncio.create_task(engine.publish(1, tmp_path / "v1"))
    await asyncio.sleep(0)
    may_go_on.set()
    await published
    sample = await engine.sample(ask([30, 31], max_tokens=5, stop=()))
    assert gap(adapted[1], [30, 31], sample) <= 1e-5
    await engine.close()
