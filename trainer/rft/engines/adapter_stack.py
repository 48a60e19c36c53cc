"""Several adapters on one base model at once: each packed token goes through that of its own policy version."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rft.core.errors import SamplerError
from rft.engines.adapter_weights import LoraMatrices, read_adapter


@dataclass(slots=True)
class _Layer:
    """The adapters of one layer, one after the other: R is the sum of their ranks."""

    a_R_I: Tensor
    b_R_O: Tensor
    """Transposed, scale included."""
    version_R: Tensor
    """Whose rank it is."""


@dataclass(slots=True)
class AdapterStack:
    """Leaves the base weights as they are, and adds what adapters change where their layers put it out.

    Two small products a layer, however many versions there are: what other versions would add is multiplied by zero.
    """

    model: nn.Module
    _adapters: dict[int, dict[str, LoraMatrices]] = field(default_factory=dict[int, dict[str, LoraMatrices]])
    _layers: dict[str, _Layer] = field(default_factory=dict[str, _Layer])
    _hooked: set[str] = field(default_factory=set[str])
    _version_T: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """Of each token of the pass in work."""

    def add(self, version: int, adapter_dir: Path | None) -> None:
        """One more version; None: the base model's own weights. Raises as `read_adapter`."""
        matrices = {} if adapter_dir is None else read_adapter(adapter_dir, self.model)
        for path in matrices:
            if not isinstance(self.model.get_submodule(path), nn.Linear):
                raise SamplerError(f"the adapter changes {path}, which is no linear layer")
        self._adapters[version] = matrices
        self._stack()

    def remove(self, version: int) -> None:
        """No token asks for this version any more; one that never came is the base model's own."""
        if self._adapters.pop(version, None) is not None:
            self._stack()

    def choose(self, versions: Sequence[tuple[int, int]]) -> None:
        """Of the next pass: version and number of tokens, in the order in which they are packed."""
        of_each, tokens = zip(*versions, strict=True)
        self._version_T = torch.repeat_interleave(torch.tensor(of_each), torch.tensor(tokens))

    def _stack(self) -> None:
        paths = {path for matrices in self._adapters.values() for path in matrices}
        self._layers = {path: self._layer(path) for path in paths}
        for path in paths - self._hooked:
            self._hook(path)

    def _layer(self, path: str) -> _Layer:
        dtype = self.model.get_parameter(f"{path}.weight").dtype
        of_layer = [(version, m[path]) for version, m in sorted(self._adapters.items()) if path in m]
        ranks = torch.tensor([len(lora.a_R_I) for _, lora in of_layer])
        return _Layer(
            torch.cat([lora.a_R_I for _, lora in of_layer]).to(dtype),
            torch.cat([lora.b_O_R.float().T * lora.scale for _, lora in of_layer]).to(dtype),
            torch.repeat_interleave(torch.tensor([version for version, _ in of_layer]), ranks),
        )

    def _hook(self, path: str) -> None:
        self._hooked.add(path)

        def add_adapters(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
            layer = self._layers.get(path)
            if layer is None:
                return output
            inner_T_R = inputs[0].flatten(0, -2) @ layer.a_R_I.T
            inner_T_R *= self._version_T[:, None] == layer.version_R
            return output + (inner_T_R @ layer.b_R_O).view_as(output)

        self.model.get_submodule(path).register_forward_hook(add_adapters)
