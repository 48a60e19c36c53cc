"""The contract of engines on a real vLLM server, and what only such a server can show."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.rollouts.sampler import SampleRequest
from rft.starter.tokenizer import build_tokenizer
from rft.trainer.engines.vllm.adapters import AdapterFolder
from rft.trainer.engines.vllm.engine import EngineOptions, VllmEngine
from tests.integration.engines.conftest import HEAD_SIZE, KEY, RealServer
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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return build_tokenizer()


@pytest.fixture
def make_model(tokenizer: PreTrainedTokenizerBase) -> MakeModel:
    return lambda: tiny_model(tokenizer, head_size=HEAD_SIZE)


@pytest.fixture
async def engine(real_server: RealServer, tmp_path: Path) -> AsyncIterator[VllmEngine]:
    folder = AdapterFolder(tmp_path / "served", run=tmp_path.name, launch="1")
    options = EngineOptions(str(real_server.model), CONTEXT_TOKENS, api_key=KEY, start_patience_s=600, patience_s=600)
    engine = VllmEngine([real_server.address], folder, options)
    yield engine
    await engine.close()


def turn(rollout: str, prompt: list[int], version: int, *, max_tokens: int = 12) -> SampleRequest:
    return SampleRequest(rollout, prompt, max_tokens, (), 3, rollout_id=rollout, policy_version=version)


class TestVllm(EngineContract):
    largest_gap = 1e-4


async def test_two_versions_live_at_once_and_each_is_exact(
    engine: VllmEngine, make_model: MakeModel, tmp_path: Path
) -> None:
    prompt, adapted = random_prompt(7, 150), dict[int, torch.nn.Module]()
    for version in (1, 2):
        adapted[version] = adapter(tmp_path / f"v{version}", make_model, seed=version)
        await engine.publish(version, tmp_path / f"v{version}")
        await engine.sample(turn(f"old {version}", prompt, version))
    samples = await asyncio.gather(*(engine.sample(turn(f"old {version}", prompt, version)) for version in (1, 2)))
    for version, sample in zip((1, 2), samples, strict=True):
        expected = plain_logprobs(adapted[version], prompt, sample.token_ids)
        assert torch.tensor(sample.logprobs).sub(expected).abs().max() <= 1e-4
    assert engine.live_versions == {1, 2}
    engine.rollout_ended("old 1")


async def test_prompts_longer_than_a_batch_do_not_end_the_engine(engine: VllmEngine) -> None:
    """Seeds and prompts cut in pieces do, on a CPU."""
    prompts = [random_prompt(number, 240) for number in range(24)]
    samples = await asyncio.gather(*(engine.sample(ask(prompt, seed=i)) for i, prompt in enumerate(prompts)))
    assert len(samples) == 24


async def test_a_rollout_goes_on_after_its_server_was_killed(
    engine: VllmEngine, make_model: MakeModel, real_server: RealServer, tmp_path: Path
) -> None:
    adapted = adapter(tmp_path / "v1", make_model, seed=1)
    await engine.publish(1, tmp_path / "v1")
    prompt = random_prompt(8, 40)
    first = await engine.sample(turn("r", prompt, 1))
    guardian = real_server.process.pid
    assert guardian is not None
    (server,) = psutil.Process(guardian).children()
    running = asyncio.create_task(engine.sample(turn("another", prompt, 1, max_tokens=200)))
    os.kill(server.pid, signal.SIGKILL)
    tokens = [*prompt, *first.token_ids]
    second = await engine.sample(turn("r", tokens, 1))
    expected = plain_logprobs(adapted, tokens, second.token_ids)
    assert torch.tensor(second.logprobs).sub(expected).abs().max() <= 1e-4
    assert len((await running).token_ids) == 200
    assert await engine.sample(turn("r", prompt, 1)) == first
