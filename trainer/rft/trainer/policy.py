"""What is trained of the base model: the shape of its adapter, and what its passes keep."""

import re
from collections.abc import Sequence

from peft import LoraConfig
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from rft.core.errors import RunFailed
from rft.core.hyperparameters import LoraSpec

_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_EXPERT_LAYERS = {"gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"}
"""Names that peft reads as those of experts or routers, even where a layer without experts has them."""


def set_checkpointing(model: PreTrainedModel, *, share: float) -> int:
    """Have some layers keep their inputs alone for the way back, and compute them again there (gradient checkpointing).

    `share`: of all activations of a pass, what there is memory for; 1 or more: no layer is computed again. A model that
    cannot do without its activations keeps them. How many layers keep theirs although not all can.
    """
    if not model.supports_gradient_checkpointing:
        return 0
    if share >= 1:
        if model.is_gradient_checkpointing:
            model.gradient_checkpointing_disable()
        return 0
    if not model.is_gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    # One layer's share is for computing one again. The last layers are the first whose memory is free on the way back.
    kept = max(0, int(len(layers) * share) - 1)
    for place, layer in enumerate(layers):
        layer.gradient_checkpointing = place < len(layers) - kept
    return kept


def lora_config(model: PreTrainedModel, lora: LoraSpec) -> LoraConfig:
    """All projections of attention and MLP by their usual names; all linear layers of unknown architectures.

    Of a mixture of experts, experts and routers stay as they are: an engine could not serve an adapter of theirs. Of a
    model that also sees, only what reads and writes text is trained.
    Where the order names layers, it is those. Raises RunFailed where the model has no such layer.
    """
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        bias="none",
        target_modules=_targets(model) if lora.target_modules is None else _named(model, lora.target_modules),
        exclude_modules=_beside_text(model),
        task_type="CAUSAL_LM",
    )


def _beside_text(model: PreTrainedModel) -> str | None:
    """Matches the names of all modules that stand beside the language model; None where there are none."""
    decoder = model.get_decoder()
    parent = next((name.rpartition(".")[0] for name, module in model.named_modules() if module is decoder), "")
    if not parent:
        return None
    beside = [name for name, module in model.get_submodule(parent).named_children() if module is not decoder]
    return "|".join(rf"{re.escape(f'{parent}.{name}')}\..*" for name in beside) or None


def _targets(model: PreTrainedModel) -> list[str] | str:
    modules = dict(model.named_modules())
    if any(_leaf(name) == "experts" for name in modules):
        return _outside_experts(model) or "all-linear"
    return list(_LAYERS) if {_leaf(name) for name in modules}.issuperset(_LAYERS) else "all-linear"


def _named(model: PreTrainedModel, names: Sequence[str]) -> list[str] | str:
    """The layers that were ordered."""
    if isinstance(names, str):
        return names
    head = model.get_output_embeddings()
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    known = {_leaf(name) for name, module in linear.items() if module is not head}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RunFailed(
            "unknown_target_modules",
            f"The model has no layers {', '.join(unknown)} that an adapter could be on. It has:"
            f" {', '.join(sorted(known))}.",
            "method.reinforcement.lora.target_modules",
        )
    return list(names)


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
