"""A base model that carries one adapter at a time, merged: as fast as the base model, exact at every change."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rft.core.errors import SamplerError

_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
_REFUSED = ("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern", "fan_in_fan_out", "trainable_token_indices")


@dataclass(frozen=True, slots=True)
class LoraMatrices:
    """What an adapter adds to one layer: scale x B A."""

    a_R_I: Tensor
    b_O_R: Tensor
    scale: float


def read_adapter(adapter_dir: Path) -> dict[str, LoraMatrices]:
    """A PEFT adapter's matrices by the layer's path. Raises SamplerError for adapters of other kinds."""
    try:
        scale = _scale(adapter_dir)
        tensors = load_file(adapter_dir / "adapter_model.safetensors")
    except (OSError, ValueError, KeyError) as error:
        raise SamplerError(f"the adapter in {adapter_dir.name} cannot be read: {error}") from error
    firsts = [name for name in tensors if name.endswith(_A)]
    if len(firsts) * 2 != len(tensors):
        raise SamplerError(f"the adapter in {adapter_dir.name} holds more than LoRA matrices")
    return {
        name.removeprefix(_PREFIX).removesuffix(_A): LoraMatrices(tensors[name], tensors[name.replace(_A, _B)], scale)
        for name in firsts
    }


class MergedAdapter:
    """Holds the pristine weights of every layer an adapter has touched, so that merging never drifts."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._pristine: dict[str, Tensor] = {}

    @torch.no_grad()
    def restore(self) -> None:
        """Weights become those of the base model again."""
        for name, weight in self._pristine.items():
            self._weight(name).copy_(weight)

    @torch.no_grad()
    def merge(self, adapter_dir: Path) -> None:
        """Weights become base + scale x B A of this PEFT adapter. Raises SamplerError for adapters of other kinds."""
        matrices = read_adapter(adapter_dir)
        self.restore()
        for path, lora in matrices.items():
            weight = self._weight(path)
            if path not in self._pristine:
                self._pristine[path] = weight.clone()
            weight.add_((lora.b_O_R.float() @ lora.a_R_I.float()).to(weight.dtype), alpha=lora.scale)

    def _weight(self, path: str) -> Tensor:
        weight = self._model.get_submodule(path).weight
        if not isinstance(weight, Tensor):
            raise SamplerError(f"the adapter changes {path}, which has no weight")
        return weight


def _scale(adapter_dir: Path) -> float:
    config = json.loads((adapter_dir / "adapter_config.json").read_text())
    refused = [field for field in _REFUSED if config.get(field)]
    if refused or config.get("bias", "none") != "none":
        raise SamplerError(f"the adapter in {adapter_dir.name} uses {', '.join(refused) or 'bias'}: not supported")
    rank = config["r"]
    return config["lora_alpha"] / (rank**0.5 if config.get("use_rslora") else rank)
