"""A base model that carries one adapter at a time, merged: as fast as the base model, exact at every change."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
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


def read_adapter(adapter_dir: Path, model: nn.Module) -> dict[str, LoraMatrices]:
    """A PEFT adapter's matrices by the layer's path. Raises SamplerError for adapters of other kinds or models."""
    try:
        scale = _scale(adapter_dir)
        tensors = load_file(adapter_dir / "adapter_model.safetensors")
        matrices = {
            name.removeprefix(_PREFIX).removesuffix(_A): LoraMatrices(a, tensors[name.replace(_A, _B)], scale)
            for name, a in tensors.items()
            if name.endswith(_A)
        }
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise SamplerError(f"the adapter in {adapter_dir.name} cannot be read: {error}") from error
    if len(matrices) * 2 != len(tensors):
        raise SamplerError(f"the adapter in {adapter_dir.name} holds more than LoRA matrices")
    for path, lora in matrices.items():
        _check_fit(model, path, lora)
    return matrices


class MergedAdapter:
    """Holds the pristine weights of every layer an adapter has touched, so that merging never drifts."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._pristine: dict[str, Tensor] = {}

    @torch.no_grad()
    def restore(self) -> None:
        """Weights become those of the base model again."""
        for name, weight in self._pristine.items():
            _weight(self._model, name).copy_(weight)

    @torch.no_grad()
    def merge(self, adapter_dir: Path) -> None:
        """Weights become base + scale x B A of this PEFT adapter, or stay as they are: raises as `read_adapter`."""
        matrices = read_adapter(adapter_dir, self._model)
        self.restore()
        for path, lora in matrices.items():
            weight = _weight(self._model, path)
            if path not in self._pristine:
                self._pristine[path] = weight.clone()
            weight.add_((lora.b_O_R.float() @ lora.a_R_I.float()).to(weight.dtype), alpha=lora.scale)


def _weight(model: nn.Module, path: str) -> Tensor:
    try:
        return model.get_parameter(f"{path}.weight")
    except AttributeError as error:
        raise SamplerError(f"the adapter changes {path}, which has no weight") from error


def _check_fit(model: nn.Module, path: str, lora: LoraMatrices) -> None:
    shape, rank = _weight(model, path).shape, len(lora.a_R_I)
    if (*lora.b_O_R.shape, *lora.a_R_I.shape) != (shape[0], rank, rank, *shape[1:]):
        raise SamplerError(f"the adapter changes {path} in another size than it has")


def _scale(adapter_dir: Path) -> float:
    config = json.loads((adapter_dir / "adapter_config.json").read_text())
    refused = [field for field in _REFUSED if config.get(field)]
    if refused or config.get("bias", "none") != "none":
        raise SamplerError(f"the adapter in {adapter_dir.name} uses {', '.join(refused) or 'bias'}: not supported")
    rank = config["r"]
    return config["lora_alpha"] / (rank**0.5 if config.get("use_rslora") else rank)
