"""What a model takes is told from its configuration as the model itself would tell it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from peft import get_peft_model
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from rft.core.hyperparameters import LoraSpec
from rft.core.model_check import ModelFigures
from rft.engines.architecture import attention_of, auto_class_of, with_backbone
from rft.engines.base_model import switch_noise_off
from rft.engines.kv_slots import KvSlots
from rft.trainer.model_figures import figures_of
from rft.trainer.policy import lora_config
from rft.trainer.token_budget import kept_bytes
from tests.shared.tiny_models import FAMILIES, tiny, tiny_config

_TOKENS = 64


def figures(config: PretrainedConfig) -> ModelFigures:
    return figures_of(config, max_context_tokens=None, is_held=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_and_activations_are_those_of_the_model_itself(family: str, tokenizer: PreTrainedTokenizerBase) -> None:
    config = tiny_config(family, tokenizer)
    switch_noise_off(config)
    model = with_backbone(auto_class_of(config).from_config(config))
    model.set_attn_implementation(attention_of(model.config))
    parameters = sum(weight.numel() for weight in model.parameters())
    policy = get_peft_model(model, lora_config(model, LoraSpec())).train()
    trained = sum(weight.numel() for weight in policy.parameters() if weight.requires_grad)
    ids = torch.zeros((1, _TOKENS), dtype=torch.long)
    with kept_bytes(policy) as kept:
        hidden = model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).last_hidden_state
        per_token = (kept() + hidden.nbytes) / _TOKENS
    found = figures(tiny(family, tokenizer).config)
    assert (found.parameters, found.adapter_parameters) == (parameters, trained)
    assert found.activation_bytes_per_token is not None
    share = found.activation_bytes_per_token / per_token
    # Plain attention also keeps a square of the tokens, which is not told; heads of this size make it large.
    assert 0.9 < share < 1.1 or (attention_of(model.config) == "eager" and 0.5 < share < 1.1) or family == "deepseek_v3"


def test_the_cache_is_what_the_engine_allocates(tokenizer: PreTrainedTokenizerBase) -> None:
    config = tiny("qwen3", tokenizer).config
    found = figures(config).cache
    assert found is not None
    memory = KvSlots(config, slots=3, capacity=512, dtype=torch.float32)
    assert found.bytes_per_token * 3 * 512 == sum(tensor.nbytes for tensor in (*memory.keys, *memory.values))
    assert (found.conversations, found.tokens) == (256, 256 * 512)


def _measured(tokens: int) -> tuple[int, ModelFigures]:
    """Bytes that an update of a model of 100 million parameters adds to a process, model included, and its figures."""
    from rft.starter.tokenizer import build_tokenizer
    from rft.trainer.grpo import PolicyTrainer
    from rft.trainer.heap import return_large_blocks
    from rft.trainer.update_settings import UpdateSettings
    from tests.bench.train import Shape, resident_bytes, rows_of  # Heavy, and of this process alone.

    torch.set_num_threads(1)
    return_large_blocks()
    shape, tokenizer = Shape(), build_tokenizer()
    rows = rows_of([tokens // 2] * 2, shape.vocabulary)
    before = resident_bytes("VmRSS")
    model = shape.model()
    found = figures(model.config)
    with TemporaryDirectory() as folder:
        trainer = PolicyTrainer(
            model, tokenizer, UpdateSettings(1, 1e-4, LoraSpec(), "dapo", 1.0, 1, tokens),
            output_dir=Path(folder), source=lambda step: rows, on_saved=lambda step, path, optimization: None,
        )  # fmt: skip
        Path("/proc/self/clear_refs").write_text("5")  # From now on VmHWM is the peak.
        trainer.train()
    return resident_bytes("VmHWM") - before, found.model_copy(update={"micro_batch_tokens": tokens})


@pytest.mark.slow
def test_a_measured_update_takes_what_is_told() -> None:
    """Seen: 1 % apart at 1,024 to 2,048 tokens, 4 % at 512; one run in four has 23 % more that the allocator keeps."""
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning) as process:
        measured, found = process.submit(_measured, 1024).result()
    assert found.training_bytes is not None
    assert 0.7 < measured / found.training_bytes < 1.4
