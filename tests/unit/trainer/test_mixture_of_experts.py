"""Mixtures of experts with a loss that balances their experts: they train and sample like any other model."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from peft import PeftModel
from transformers import (
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
    TrainerCallback,
)

from rft.core.hyperparameters import LoraSpec
from rft.core.step_record import Optimization
from rft.core.turns import Trace
from rft.engines.base import Engine
from rft.engines.paged_engine import PagedEngine
from rft.engines.slot_engine import SlotEngine
from rft.engines.slot_fit import supports
from rft.rollouts.sampler import SampleRequest
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.samples import TrainingRow, training_rows
from rft.trainer.update_settings import UpdateSettings
from tests.shared.by_hand import group_of
from tests.shared.tiny_models import tiny

REWARDS = [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1]
Gradients = dict[str, torch.Tensor]
MakeModel = Callable[[PreTrainedTokenizerBase, float], PreTrainedModel]


def _shape(tokenizer: PreTrainedTokenizerBase, coefficient: float) -> dict[str, Any]:
    return {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_experts_per_tok": 2,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 256,
        "output_router_logits": True,
        "router_aux_loss_coef": coefficient,
        "tie_word_embeddings": False,
        "pad_token_id": cast(int, tokenizer.pad_token_id),
        "eos_token_id": cast(int, tokenizer.eos_token_id),
    }


def mixtral(tokenizer: PreTrainedTokenizerBase, coefficient: float = 0.5) -> PreTrainedModel:
    torch.manual_seed(0)
    shape = _shape(tokenizer, coefficient)
    return _wide(MixtralForCausalLM(MixtralConfig(intermediate_size=16, num_local_experts=4, **shape)))


def qwen2_moe(tokenizer: PreTrainedTokenizerBase, coefficient: float = 0.5) -> PreTrainedModel:
    torch.manual_seed(0)
    config = Qwen2MoeConfig(
        intermediate_size=32,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        num_experts=4,
        **_shape(tokenizer, coefficient),
    )
    return _wide(Qwen2MoeForCausalLM(config))


def _wide(model: PreTrainedModel) -> PreTrainedModel:
    """Random weights that make experts and answers differ."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0, 0.25)
    return model


def llama4(tokenizer: PreTrainedTokenizerBase, coefficient: float) -> PreTrainedModel:
    model = tiny("llama4_text", tokenizer)
    model.config.router_aux_loss_coef = coefficient
    return model


MODELS = [pytest.param(mixtral, id="mixtral"), pytest.param(qwen2_moe, id="qwen2_moe")]


class _Capture(TrainerCallback):
    def __init__(self) -> None:
        self.gradients: Gradients = {}

    def on_pre_optimizer_step(self, *args: Any, model: torch.nn.Module, **kwargs: Any) -> None:
        self.gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def update(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[TrainingRow],
    path: Path,
    *,
    tokens: int = 1000,
) -> tuple[Gradients, Optimization, Path]:
    """One optimizer step: the gradients before clipping took effect, its figures, and its checkpoint."""
    found: list[tuple[Optimization, Path]] = []
    trainer = PolicyTrainer(
        model,
        tokenizer,
        UpdateSettings(1, 1e-2, LoraSpec(rank=4, alpha=8), "dapo", 1.0, 11, tokens),
        output_dir=path,
        source=lambda step: rows,
        on_saved=lambda step, saved, optimization: found.append((optimization, saved)),
    )
    capture = _Capture()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in trainer.policy.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    trainer.add_callback(capture)
    trainer.train()
    [(optimization, saved)] = found
    return capture.gradients, optimization, saved


def worst_difference(left: Gradients, right: Gradients) -> float:
    assert left.keys() == right.keys() != set()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("tokens", [1000, 120])
def test_it_trains_and_the_balance_of_its_experts_is_part_of_the_gradient(
    make: MakeModel,
    tokens: int,
    tokenizer: PreTrainedTokenizerBase,
    ragged_traces: list[Trace],
    tmp_path: Path,
) -> None:
    rows = training_rows([group_of(ragged_traces, REWARDS)])
    balanced, figures, _ = update(make(tokenizer, 0.5), tokenizer, rows, tmp_path / "1", tokens=tokens)
    plain, _, _ = update(make(tokenizer, 0.0), tokenizer, rows, tmp_path / "2", tokens=tokens)
    assert all(bool(gradient.isfinite().all()) for gradient in balanced.values())
    assert figures.loss is not None
    assert figures.grad_norm is not None
    assert 0.0 < figures.grad_norm < float("inf")
    assert figures.trained_rollouts == 8
    assert worst_difference(balanced, plain) > 1e-4
    assert {name.split(".")[-4] for name in balanced} == {"q_proj", "k_proj", "v_proj", "o_proj"}


@pytest.mark.parametrize("make", MODELS)
def test_the_coefficient_alone_orders_the_balance(
    make: MakeModel, tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    """As TRL has it: most published mixtures have a coefficient, and router logits switched off."""
    rows = training_rows([group_of(ragged_traces, REWARDS)])
    ordered, _, _ = update(make(tokenizer, 0.5), tokenizer, rows, tmp_path / "1")
    unspoken = make(tokenizer, 0.5)
    unspoken.config.output_router_logits = False
    default, _, _ = update(unspoken, tokenizer, rows, tmp_path / "2")
    assert worst_difference(ordered, default) == 0.0


def test_llama_4_trains_without_the_balance_of_routers_that_choose_by_a_softmax(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    rows = training_rows([group_of(ragged_traces, REWARDS)])
    gradients, figures, _ = update(llama4(tokenizer, 0.5), tokenizer, rows, tmp_path / "1")
    plain, _, _ = update(llama4(tokenizer, 0.0), tokenizer, rows, tmp_path / "2")
    assert worst_difference(gradients, plain) == 0.0
    assert figures.grad_norm is not None
    assert 0.0 < figures.grad_norm < float("inf")
    assert {name.split(".")[-4] for name in gradients} == {"q_proj", "k_proj", "v_proj", "o_proj"}


@pytest.mark.lengthy
@pytest.mark.parametrize("make", [*MODELS, pytest.param(llama4, id="llama4")])
def test_neither_an_excluded_rollout_nor_checkpointing_changes_anything(
    make: MakeModel, tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    good, rewards = ragged_traces[:3], [0.0, 1.0, 0.3]
    without = training_rows([group_of(good, rewards)])
    excluded = training_rows([group_of([*good, ragged_traces[7]], [*rewards, None])])
    one, _, _ = update(make(tokenizer, 0.5), tokenizer, without, tmp_path / "1", tokens=30)
    other, _, _ = update(make(tokenizer, 0.5), tokenizer, excluded, tmp_path / "2", tokens=30)
    assert worst_difference(one, other) == 0.0
    alone = training_rows([group_of(good[:2], rewards[:2])])
    whole, _, _ = update(make(tokenizer, 0.5), tokenizer, alone, tmp_path / "3", tokens=40)
    checkpointed, _, _ = update(make(tokenizer, 0.5), tokenizer, alone, tmp_path / "4", tokens=1)
    assert worst_difference(whole, checkpointed) <= 1e-6


@pytest.mark.parametrize("make", MODELS)
def test_tokens_that_nobody_sampled_have_no_say_in_the_balance(
    make: MakeModel, tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    """Tool tokens behind the last sampled token are nobody's context, and padding is nobody's either."""
    rows = training_rows([group_of(ragged_traces, REWARDS)])

    def with_tail(token: int, tokens: int) -> list[TrainingRow]:
        return [
            TrainingRow(
                row.prompt_ids,
                (*row.completion_ids_T, *[token] * tokens),
                (*row.mask_T, *[False] * tokens),
                (*row.logprobs_T, *[0.0] * tokens),
                row.advantage,
            )
            for row in rows
        ]

    none, _, _ = update(make(tokenizer, 0.5), tokenizer, rows, tmp_path / "0")
    one, _, _ = update(make(tokenizer, 0.5), tokenizer, with_tail(50, 2), tmp_path / "1")
    other, _, _ = update(make(tokenizer, 0.5), tokenizer, with_tail(300, 2), tmp_path / "2")
    longer, _, _ = update(make(tokenizer, 0.5), tokenizer, with_tail(50, 40), tmp_path / "3")
    assert worst_difference(one, other) == 0.0
    assert worst_difference(none, one) <= 1e-6
    assert worst_difference(one, longer) <= 1e-6


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("engine_type", [SlotEngine, PagedEngine])
def test_both_engines_sample_what_the_trained_model_says(
    make: MakeModel,
    engine_type: type[SlotEngine | PagedEngine],
    tokenizer: PreTrainedTokenizerBase,
    ragged_traces: list[Trace],
    tmp_path: Path,
) -> None:
    rows = training_rows([group_of(ragged_traces, REWARDS)])
    _, _, adapter = update(make(tokenizer, 0.5), tokenizer, rows, tmp_path / "update")
    before, after = asyncio.run(_two_versions(engine_type(make(tokenizer, 0.5), max_context_tokens=256), adapter))
    model = make(tokenizer, 0.5)
    assert supports(model)
    for tokens, logprobs in before:
        assert _plain_logprobs(model, tokens) == pytest.approx(logprobs, abs=2e-4)
    tuned = PeftModel.from_pretrained(model, str(adapter)).eval()
    for tokens, logprobs in after:
        assert _plain_logprobs(tuned, tokens) == pytest.approx(logprobs, abs=2e-4)
    assert [logprobs for _, logprobs in before] != [logprobs for _, logprobs in after]


_PROMPTS = [[30 + i, 31, 32, 33 + i, 40] for i in range(3)]


async def _two_versions(engine: Engine, adapter: Path) -> list[list[tuple[list[int], list[float]]]]:
    """What a few requests at once come to, before and after the adapter."""
    try:
        versions: list[list[tuple[list[int], list[float]]]] = []
        for version in range(2):
            if version:
                await engine.publish(1, adapter)
            samples = await asyncio.gather(
                *(engine.sample(SampleRequest(f"r{i}", prompt, 6, (0,), seed=i)) for i, prompt in enumerate(_PROMPTS))
            )
            versions.append(
                [([*prompt, *s.token_ids], list(s.logprobs)) for prompt, s in zip(_PROMPTS, samples, strict=True)]
            )
        return versions
    finally:
        await engine.close()


def _plain_logprobs(model: torch.nn.Module, tokens: list[int]) -> list[float]:
    """Of everything after the prompt, by one forward pass."""
    with torch.no_grad():
        logits_T_V = model(input_ids=torch.tensor([tokens])).logits[0]
    prompt = len(_PROMPTS[0])
    logprobs_T_V = torch.log_softmax(logits_T_V[prompt - 1 : -1].float(), -1)
    return logprobs_T_V.gather(1, torch.tensor(tokens[prompt:])[:, None])[:, 0].tolist()
