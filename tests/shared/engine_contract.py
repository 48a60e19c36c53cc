"""One contract for every engine: a class of tests, and what they ask and compare with."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from peft import get_peft_model
from transformers import PreTrainedModel

from rft.core.errors import SamplerError
from rft.core.grammar import Grammar
from rft.core.hyperparameters import LoraSpec
from rft.engines.base import BaseModelEngine, Engine
from rft.rollouts.sampler import FinishReason, RolloutHolder, SampleRequest, follow_policy, release_policy
from rft.trainer.policy import lora_config

STOP = 5
CONTEXT_TOKENS = 256
MakeModel = Callable[[], PreTrainedModel]
"""The same model at each call, with at least 600 tokens."""


def ask(
    prompt: list[int], *, seed: int = 0, max_tokens: int = 12, temperature: float = 1.0, stop: tuple[int, ...] = (STOP,)
) -> SampleRequest:
    return SampleRequest(f"r{seed}", prompt, max_tokens, stop, seed, temperature)


def random_prompt(seed: int, length: int) -> list[int]:
    return torch.randint(20, 600, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def plain_logprobs(
    model: torch.nn.Module, prompt: list[int], tokens: tuple[int, ...], temperature: float = 1.0
) -> torch.Tensor:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1] / temperature
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(tokens)[:, None])[:, 0]


def adapter(path: Path, make_model: MakeModel, seed: int) -> torch.nn.Module:
    """A random adapter, saved; the model that carries it is returned."""
    model = make_model()
    torch.manual_seed(seed)
    adapted = get_peft_model(model, lora_config(model, LoraSpec(rank=4, alpha=8)))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.3)
    adapted.save_pretrained(str(path))
    return adapted.eval()


class OneOfTwo:
    """Two tokens at each place, and the stop token after three."""

    def __init__(self) -> None:
        self.grammar: Grammar = {}

    def allowed(self, sampled: Sequence[int]) -> bytes:
        bits, place = bytearray(75), len(sampled)
        for token in (30 + place, 590 + place) if place < 3 else (STOP,):
            bits[token // 8] |= 1 << token % 8
        return bytes(bits)


class ComputedHereContract:
    """Of engines that draw each token themselves."""

    async def test_a_constraint_holds_its_own_sample_alone(self, engine: Engine, make_model: MakeModel) -> None:
        prompt, reference = random_prompt(6, 20), make_model().eval()
        free = [engine.sample(ask(prompt, seed=seed)) for seed in range(6)]
        held = [engine.sample(replace(ask(prompt, seed=seed), constraint=OneOfTwo())) for seed in range(6)]
        samples = await asyncio.gather(*free, *held)
        alone = [await engine.sample(ask(prompt, seed=seed)) for seed in range(6)]
        assert [sample.token_ids for sample in samples[:6]] == [sample.token_ids for sample in alone]
        for sample in samples[6:]:
            *tokens, last = sample.token_ids
            assert [token in (30 + i, 590 + i) for i, token in enumerate(tokens)] == [True] * 3
            assert (last, sample.finish_reason, sample.logprobs[-1]) == (STOP, FinishReason.STOP, 0.0)
            with torch.no_grad():
                logits = reference(input_ids=torch.tensor([prompt])).logits[0, -1, [30, 590]]
            expected = torch.log_softmax(logits, -1)[0 if tokens[0] == 30 else 1]
            assert abs(sample.logprobs[0] - float(expected)) < 1e-4


class EngineContract:
    """Tests of `engine`, which has a context of `CONTEXT_TOKENS` and samples from what `make_model` makes."""

    largest_gap = 1e-5
    """Between its log-probabilities and those of a plain forward pass."""

    @pytest.fixture
    def reference(self, make_model: MakeModel) -> PreTrainedModel:
        return make_model().eval()

    async def test_log_probabilities_are_those_of_a_plain_forward_pass_over_many_ragged_turns(
        self, engine: Engine, reference: PreTrainedModel
    ) -> None:
        async def talk(number: int) -> float:
            tokens, worst = random_prompt(number, 3 + 5 * number), 0.0
            for turn in range(3):
                temperature = 1.0 if number % 2 else 0.8
                sample = await engine.sample(
                    ask(tokens, seed=number * 10 + turn, max_tokens=2 + number, temperature=temperature)
                )
                expected = plain_logprobs(reference, tokens, sample.token_ids, temperature)
                worst = max(worst, float((torch.tensor(sample.logprobs) - expected).abs().max()))
                tokens = [*tokens, *sample.token_ids, *random_prompt(turn, 4 + number)]
            return worst

        assert max(await asyncio.gather(*(talk(number) for number in range(14)))) <= self.largest_gap

    async def test_the_stop_token_is_included_and_ends_the_sample(self, engine: Engine) -> None:
        prompt = random_prompt(1, 20)
        free = await engine.sample(ask(prompt, max_tokens=10, stop=()))
        assert free.finish_reason is FinishReason.LENGTH
        assert len(free.token_ids) == len(free.logprobs) == 10
        at = next(i for i, token in enumerate(free.token_ids) if i > 1 and token not in free.token_ids[:i])
        stopped = await engine.sample(ask(prompt, max_tokens=10, stop=(free.token_ids[at], 1)))
        assert stopped.finish_reason is FinishReason.STOP
        assert stopped.token_ids == free.token_ids[: at + 1]

    async def test_a_seed_gives_the_same_sample_alone_and_in_company(self, engine: Engine) -> None:
        prompt = random_prompt(2, 30)
        alone = await engine.sample(ask(prompt, seed=77))
        company = (engine.sample(ask(random_prompt(i, 5 + i), seed=i, max_tokens=20)) for i in range(20))
        together, *_ = await asyncio.gather(engine.sample(ask(prompt, seed=77)), *company)
        assert together.token_ids == alone.token_ids
        assert torch.tensor(together.logprobs).sub(torch.tensor(alone.logprobs)).abs().max() < self.largest_gap
        different = [await engine.sample(ask(prompt, seed=seed)) for seed in range(8)]
        assert len({sample.token_ids for sample in different}) == 8

    async def test_temperature_zero_takes_the_likeliest_token(self, engine: Engine, reference: PreTrainedModel) -> None:
        prompt = random_prompt(3, 10)
        greedy = await engine.sample(ask(prompt, temperature=0.0, max_tokens=4, stop=()))
        with torch.no_grad():
            expected = cast(Any, reference).generate(torch.tensor([prompt]), max_new_tokens=4, do_sample=False)
        assert list(greedy.token_ids) == expected[0, len(prompt) :].tolist()

    async def test_each_version_samples_from_its_own_adapter_even_where_a_prefix_was_cached(
        self, engine: Engine, make_model: MakeModel, tmp_path: Path
    ) -> None:
        prompt = random_prompt(4, 100)
        base = await engine.sample(ask(prompt))
        for version in (1, 2):
            adapted = adapter(tmp_path / f"v{version}", make_model, seed=version)
            await engine.publish(version, tmp_path / f"v{version}")
            assert engine.policy_version == version
            sample = await engine.sample(ask(prompt))
            expected = plain_logprobs(adapted, prompt, sample.token_ids)
            assert torch.tensor(sample.logprobs).sub(expected).abs().max() <= self.largest_gap
            assert sample.logprobs[0] != base.logprobs[0]
        assert isinstance(engine, BaseModelEngine)
        await engine.publish_base(3)
        again = await engine.sample(ask(prompt))
        assert (engine.policy_version, again.token_ids) == (3, base.token_ids)
        assert torch.tensor(again.logprobs).sub(torch.tensor(base.logprobs)).abs().max() <= self.largest_gap

    async def test_a_rollout_that_goes_on_under_a_newer_version_has_nothing_of_the_older_one(
        self, engine: Engine, make_model: MakeModel, tmp_path: Path
    ) -> None:
        tokens = random_prompt(5, 40)
        for version in (1, 2):
            adapted = adapter(tmp_path / f"v{version}", make_model, seed=version)
            await engine.publish(version, tmp_path / f"v{version}")
            if isinstance(engine, RolloutHolder) and version > 1:
                assert follow_policy(engine, "rollout", version - 1) == version
            request = replace(ask(tokens, seed=version), rollout_id="rollout", policy_version=version)
            sample = await engine.sample(request)
            expected = plain_logprobs(adapted, tokens, sample.token_ids)
            assert torch.tensor(sample.logprobs).sub(expected).abs().max() <= self.largest_gap
            tokens = [*tokens, *sample.token_ids, *random_prompt(version, 7)]
        release_policy(engine, "rollout")

    async def test_a_version_that_is_gone_is_refused_instead_of_another_one_sampled(
        self, engine: Engine, make_model: MakeModel, tmp_path: Path
    ) -> None:
        adapter(tmp_path / "v1", make_model, seed=1)
        await engine.publish(1, tmp_path / "v1")
        with pytest.raises(SamplerError, match="version 7 is not served any more"):
            await engine.sample(SampleRequest("r", [30, 31], 2, (), 0, policy_version=7))
        sample = await engine.sample(SampleRequest("r", [30, 31], 2, (), 0, policy_version=1))
        assert len(sample.token_ids) == 2

    async def test_a_cancelled_request_frees_the_engine(self, engine: Engine) -> None:
        long = [
            asyncio.create_task(engine.sample(ask(random_prompt(i, 8), seed=i, max_tokens=240, stop=())))
            for i in range(6)
        ]
        await engine.sample(ask(random_prompt(50, 8), max_tokens=3))
        for task in long:
            task.cancel()
        assert all(isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*long, return_exceptions=True))
        after = await engine.sample(ask(random_prompt(51, 8), max_tokens=3, stop=()))
        assert len(after.token_ids) == 3

    async def test_requests_that_cannot_be_served_are_refused(self, engine: Engine) -> None:
        with pytest.raises(SamplerError, match=f"exceed {CONTEXT_TOKENS} tokens"):
            await engine.sample(ask(random_prompt(1, 250), max_tokens=7))
        full = await engine.sample(ask(random_prompt(1, 250), max_tokens=6, stop=()))
        assert len(full.token_ids) == 6
        with pytest.raises(SamplerError, match="needs a prompt"):
            await engine.sample(ask([]))
        with pytest.raises(SamplerError, match="needs a prompt"):
            await engine.sample(ask([1], max_tokens=0))

    async def test_an_unreadable_adapter_is_refused_and_the_old_one_stays(self, engine: Engine, tmp_path: Path) -> None:
        with pytest.raises(SamplerError, match="cannot be read"):
            await engine.publish(1, tmp_path)
        assert engine.policy_version == 0
        assert len((await engine.sample(ask([30, 31], max_tokens=2, stop=()))).token_ids) == 2

    async def test_a_closed_engine_answers_nobody(self, engine: Engine) -> None:
        await engine.sample(ask(random_prompt(2, 8), max_tokens=1))
        waiting = asyncio.create_task(engine.sample(ask(random_prompt(1, 8), max_tokens=240, stop=())))
        await asyncio.sleep(0)  # It has begun. No longer: some engine would be done with it.
        await engine.close()
        with pytest.raises(SamplerError):
            await waiting
        with pytest.raises(SamplerError, match="closed"):
            await engine.sample(ask([1, 2]))
        await engine.close()
