"""The base model, as it is loaded for training and for sampling, and the shape of its adapter."""

import torch
from peft import LoraConfig
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from rft.core.spec import LoraSpec
from rft.trainer.tokenizer import UnusableModel

_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_EXPERT_LAYERS = {"gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"}
"""Names that peft reads as those of experts or routers, even where a layer without experts has them."""
_CONTEXT_LIMIT_TOKENS = 16_384
"""Rollouts longer than this are cut, whatever the model allows: their keys and values would fill the memory."""


def load_base_model(base_model: str) -> PreTrainedModel:
    """Single precision on the CPU, so that sampler and trainer agree to the sixth digit. Raises UnusableModel."""
    disable_progress_bar()
    try:
        return AutoModelForCausalLM.from_pretrained(base_model, dtype=torch.float32, attn_implementation="sdpa")
    except (OSError, ValueError) as error:
        raise UnusableModel(f"the base model {base_model} cannot be loaded: {error}") from error


def max_context_tokens(config: PretrainedConfig, wanted: int | None = None) -> int:
    """Prompt plus completion at most. `wanted`: the operator's own limit, which may lie above ours."""
    possible = getattr(config.get_text_config(), "max_position_embeddings", None)
    limit = wanted or _CONTEXT_LIMIT_TOKENS
    return min(possible or limit, limit)


def without_router_logits(model: PreTrainedModel) -> PreTrainedModel:
    """The same model: a mixture of experts gives its router's logits only where they are asked for.

    One whose configuration orders them always also weighs up their balance in each pass, which sampling has no use for
    and which no paged batch survives.
    """
    config = model.config.get_text_config()
    if getattr(config, "output_router_logits", False):
        config.output_router_logits = False
    return model


def set_checkpointing(model: PreTrainedModel, *, is_on: bool) -> None:
    """Whether passes keep each layer's input alone and compute the layer again on the way back.

    A model that cannot do without its activations keeps them.
    """
    if is_on == model.is_gradient_checkpointing or not model.supports_gradient_checkpointing:
        return
    if is_on:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()


def lora_config(model: PreTrainedModel, lora: LoraSpec) -> LoraConfig:
    """All projections of attention and MLP by their usual names; all linear layers of unknown architectures.

    Of a mixture of experts, experts and routers stay as they are: an engine could not serve an adapter of theirs.
    """
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        bias="none",
        target_modules=_targets(model),
        task_type="CAUSAL_LM",
    )


def _targets(model: PreTrainedModel) -> list[str] | str:
    modules = dict(model.named_modules())
    if any(_leaf(name) == "experts" for name in modules):
        return _outside_experts(model) or "all-linear"
    return list(_LAYERS) if {_leaf(name) for name in modules}.issuperset(_LAYERS) else "all-linear"


def _outside_experts(model: PreTrainedModel) -> list[str]:
    """Names of linear layers that no block with experts has, and that peft does not take for parts of experts."""
    modules = dict(model.named_modules())
    blocks = tuple(name.removesuffix("experts") for name in modules if _leaf(name) == "experts")
    linear = {name for name, module in modules.items() if isinstance(module, nn.Linear)}
    inside = {_leaf(name) for name in linear if name.startswith(blocks)}
    head = {name for name in linear if modules[name] is model.get_output_embeddings()}
    return sorted({_leaf(name) for name in linear - head} - inside - _EXPERT_LAYERS)


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]
