"""How far a sample's log-probabilities are off those of the model that is trained."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from rft.core.errors import RunPaused
from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.rollouts.sampler import FinishReason, Sample
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import ScriptedVllm
from rft.trainer.engine_probe import LARGEST_MEAN_GAP, EngineProbe, mean_gap
from rft.trainer.loop_thread import LoopThread
from rft.vllm_server.release import VERSION
from tests.shared.by_hand import tiny_model
from tests.shared.engine_contract import adapter, plain_logprobs, random_prompt

YOUNG = 0.0015
"""Times the matrices of an adapter: what it says is near to what the base model says."""


def test_the_same_weights_agree_and_others_do_not(tokenizer: PreTrainedTokenizerBase) -> None:
    model, prompt, tokens = tiny_model(tokenizer).train(), random_prompt(1, 20), (30, 40, 50)
    exact = plain_logprobs(model, prompt, tokens)
    sample = Sample(tokens, tuple(exact.tolist()), FinishReason.LENGTH)
    assert mean_gap(model, prompt, sample) < 1e-6
    assert model.training, "it goes on being trained"
    assert mean_gap(tiny_model(tokenizer, seed=1), prompt, sample) > LARGEST_MEAN_GAP
    shifted = Sample(tokens, tuple((exact - torch.tensor([0.3, 0.0, -0.6])).tolist()), FinishReason.LENGTH)
    assert mean_gap(model, prompt, shifted) == pytest.approx(0.3, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_gap_is_that_of_the_temperature(tokenizer: PreTrainedTokenizerBase, temperature: float) -> None:
    model, prompt, tokens = tiny_model(tokenizer, head_std=1.0), random_prompt(1, 20), (30, 40, 50)
    sample = Sample(tokens, tuple(plain_logprobs(model, prompt, tokens, temperature).tolist()), FinishReason.LENGTH)
    assert mean_gap(model, prompt, sample, temperature) < 1e-5
    assert mean_gap(model, prompt, sample) > LARGEST_MEAN_GAP


class ServedModel(ScriptedVllm):
    """Gives a model's log-probabilities of the temperature that is asked for, or raw ones."""

    def __init__(self, model: nn.Module, *, is_processed: bool) -> None:
        super().__init__(version=VERSION, root="/models/tiny", max_model_len=512)
        self._model, self._is_processed = model, is_processed

    def tokens_of(self, body: dict[str, Any]) -> tuple[list[int], list[float]]:
        tokens = (30, 40, 50)
        temperature = body["temperature"] if self._is_processed else 1.0
        return [*tokens], plain_logprobs(self._model, body["prompt"], tokens, temperature).tolist()


@contextmanager
def probing(served: ServedModel, model: nn.Module, adapters: Path) -> Generator[Callable[[int], None]]:
    """What a run of temperature 0.5 does before it samples from a version. Raises RunPaused."""
    loop_thread, server = LoopThread(), LoopbackEndpoint(served)
    loop_thread.call(server.__aenter__())
    engine = VllmEngine(
        [ServerAddress(server.base_url)],
        AdapterFolder(adapters, run="job", launch="1"),
        EngineOptions(base_model="/models/tiny", max_context_tokens=512),
    )
    probe = EngineProbe(engine, loop_thread, random_prompt(1, 20), temperature=0.5)
    probe.policy = model

    def published(version: int) -> None:
        if version:
            loop_thread.call(engine.publish(version, adapters.with_name("trained")))
        probe.published(version)

    try:
        yield published
    finally:
        loop_thread.finish(engine.close(), server.__aexit__())
        loop_thread.close()


def judge(served: ServedModel, model: nn.Module, adapters: Path) -> None:
    """Whether the base model is served. Raises RunPaused."""
    with probing(served, model, adapters) as published:
        published(0)


def test_a_server_with_log_probabilities_of_another_temperature_is_refused(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    model = tiny_model(tokenizer, head_std=1.0).eval()
    judge(ServedModel(model, is_processed=True), model, tmp_path)
    with pytest.raises(RunPaused, match="processed_logprobs") as refused:
        judge(ServedModel(model, is_processed=False), model, tmp_path)
    assert refused.value.code == "engine_mismatch"


def trained(tokenizer: PreTrainedTokenizerBase, folder: Path, *, differs_by: float) -> nn.Module:
    """A policy that is off the base model by so much."""
    policy = adapter(folder / "trained", lambda: tiny_model(tokenizer, head_std=1.0), seed=1)
    change(policy, differs_by)
    return policy


def change(policy: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.mul_(factor)


def test_a_server_that_answers_with_the_base_model_in_place_of_a_young_adapter_is_refused(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    base = tiny_model(tokenizer, head_std=1.0).eval()
    policy = trained(tokenizer, tmp_path, differs_by=YOUNG)
    exact = plain_logprobs(base, random_prompt(1, 20), (30, 40, 50), 0.5)
    answer = Sample((30, 40, 50), tuple(exact.tolist()), FinishReason.LENGTH)
    assert 0.01 < mean_gap(policy, random_prompt(1, 20), answer, 0.5) < LARGEST_MEAN_GAP / 2
    with probing(ServedModel(policy, is_processed=True), policy, tmp_path / "a") as published:
        published(1)
    with (
        probing(ServedModel(base, is_processed=True), policy, tmp_path / "b") as published,
        pytest.raises(RunPaused, match="does not apply the adapter of step 1") as refused,
    ):
        published(1)
    assert refused.value.code == "engine_mismatch"
    assert policy.training is False
    assert all(parameter.requires_grad for name, parameter in policy.named_parameters() if "lora_" in name)


def test_an_adapter_that_says_what_the_base_model_says_settles_nothing(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    base = tiny_model(tokenizer, head_std=1.0).eval()
    policy = trained(tokenizer, tmp_path, differs_by=1e-6)
    served = ServedModel(base, is_processed=True)
    with probing(served, policy, tmp_path / "a") as published:
        published(1)
        change(policy, YOUNG / 1e-6)
        with pytest.raises(RunPaused, match="does not apply the adapter of step 2"):
            published(2)


def test_a_server_is_asked_until_it_has_shown_that_it_has_the_adapter(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    policy = trained(tokenizer, tmp_path, differs_by=YOUNG)
    served = ServedModel(policy, is_processed=True)
    with probing(served, policy, tmp_path / "a") as published:
        published(1)
        published(2)
    assert len(served.sampled) == 1
