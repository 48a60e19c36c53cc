"""The base model, as it is loaded for training and for sampling, and the shape of its adapter."""

import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from rft.core.spec import LoraSpec
from rft.trainer.tokenizer import UnusableModel

_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_CONTEXT_LIMIT_TOKENS = 16_384
"""Rollouts longer than this are cut, whatever the model allows: their keys and values would fill the memory."""


def load_base_model(base_model: str) -> PreTrainedModel:
    """Single precision on the CPU, so that sampler and trainer agree to the sixth digit. Raises UnusableModel."""
    disable_progress_bar()
    try:
        return AutoModelForCausalLM.from_pretrained(base_model, dtype=torch.float32, attn_implementation="sdpa")
    except (OSError, ValueError) as error:
        raise UnusableModel(f"the base model {base_model} cannot be loaded: {error}") from error


def max_context_tokens(model: PreTrainedModel) -> int:
    """Prompt plus completion at most."""
    wanted = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min(wanted or _CONTEXT_LIMIT_TOKENS, _CONTEXT_LIMIT_TOKENS)


def lora_config(model: PreTrainedModel, lora: LoraSpec) -> LoraConfig:
    """All projections of attention and MLP by their usual names; all linear layers of unknown architectures."""
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    is_usual = names.issuperset(_LAYERS)
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        bias="none",
        target_modules=list(_LAYERS) if is_usual else "all-linear",
        task_type="CAUSAL_LM",
    )
