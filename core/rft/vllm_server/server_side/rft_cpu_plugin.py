"""What a vLLM server of ours does otherwise on a CPU; vLLM calls `register` in each of its processes.

An entry point of the group `vllm.general_plugins`, for vLLM 0.31: with another version, a name that is missing here
ends the server, rather than that it samples what nobody asked for.
"""

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

_Tensor = Any
_BETWEEN_LOOKS_S = 0.0002
"""Of a tiny model on a CPU, a token takes thirty times as long."""
_BASE = -1
"""The slot of tokens that no adapter is for."""


def register() -> None:
    """Nothing on a GPU."""
    if import_module("vllm.platforms").current_platform.is_cpu():
        _wait_without_spinning()
        _keep_adapters_to_their_tokens()


def _wait_without_spinning() -> None:
    """A process that waits for another one sleeps between its looks.

    For a second after each message vLLM looks without a pause, which takes the core that the other one, or an update on
    the same machine, could compute on. (What it does after that second, to wait for a notification, is no way out:
    notifications that follow each other closely get lost.)
    """
    _replace(_of_vllm("distributed.device_communicators.shm_broadcast"), "sched_yield", _sleep)


def _sleep() -> None:
    time.sleep(_BETWEEN_LOOKS_S)


def _keep_adapters_to_their_tokens() -> None:
    """Tokens are multiplied by their own adapter's weights, and those of the base model by none.

    vLLM's own functions for the CPU take slot -1 for an index, so that the base model samples with what the last slot
    holds or held; and they copy an adapter's weights once for each token.
    """
    ours: dict[str, Callable[..., None]] = {
        "bgmv_shrink": shrink, "bgmv_expand": expand, "bgmv_expand_slice": expand_slice,
    }  # fmt: skip
    for name in ("lora.ops.torch_ops.lora_ops", "lora.ops.torch_ops", "lora.punica_wrapper.punica_cpu"):
        for function, replacement in ours.items():
            _replace(_of_vllm(name), function, replacement)
    wrapper = _of_vllm("lora.punica_wrapper.punica_cpu").PunicaWrapperCPU
    _replace(wrapper, "update_metadata", sorting_tokens(wrapper.update_metadata))
    _replace(wrapper, "add_lora_linear", add_linear)


def _of_vllm(module: str) -> Any:
    return import_module(f"vllm.{module}")


def _replace(where: Any, name: str, replacement: Callable[..., None]) -> None:
    """Raises AttributeError where vLLM calls it by another name."""
    getattr(where, name)
    setattr(where, name, replacement)


def sorting_tokens(update: Callable[..., None]) -> Callable[..., None]:
    """`update_metadata` of a wrapper, after which its `rft_tokens` are the slots in use, each with the places of its
    tokens: once for a batch, where each of its products would look for them else."""

    def update_metadata(wrapper: Any, *batch: Any, **more: Any) -> None:
        update(wrapper, *batch, **more)
        slots: _Tensor = wrapper.token_lora_indices
        used = set(slots.tolist())
        wrapper.rft_tokens = [
            (slot, None if len(used) == 1 else (slots == slot).nonzero()[:, 0]) for slot in sorted(used - {_BASE})
        ]

    return update_metadata


def add_linear(
    wrapper: Any,
    outputs: _Tensor,
    inputs: _Tensor,
    downs: Sequence[_Tensor],
    ups: Sequence[_Tensor],
    scale: float,
    *_: object,
    **__: object,
) -> None:
    """Add what the adapters make of the inputs of a layer, or of several that vLLM computes as one.

    Inputs (..., in), outputs (..., sum of the layers'); of each layer `downs` (slots, 1, rank, in) and `ups` (slots, 1,
    out, rank).
    """
    inputs, outputs = inputs.view(-1, inputs.shape[-1]), outputs.view(-1, outputs.shape[-1])
    for slot, places in wrapper.rft_tokens:
        own = inputs if places is None else inputs[places]
        of_layers = [own @ down[slot, 0].T @ up[slot, 0].T for down, up in zip(downs, ups, strict=True)]
        products = of_layers[0] if len(of_layers) == 1 else import_module("torch").cat(of_layers, 1)
        products = products if scale == 1 else scale * products
        if places is None:
            outputs += products
        else:
            outputs.index_add_(0, places, products)


def shrink(inputs: _Tensor, weights: _Tensor, output: _Tensor, slots: _Tensor, scaling: float = 1.0) -> None:
    """Write `scaling` x inputs x weights into the first columns. Shapes as of `_products`."""
    products = _products(inputs, weights, slots, output)
    output[:, : products.shape[1]] = scaling * products


def expand(inputs: _Tensor, weights: _Tensor, output: _Tensor, slots: _Tensor, add_inputs: bool = True) -> None:
    """Add inputs x weights, or write it, to as many columns as both have."""
    columns = min(weights.shape[-2], output.shape[1])
    expand_slice(inputs, weights[..., :columns, :], output, slots, 0, columns, add_inputs)


def expand_slice(
    inputs: _Tensor, weights: _Tensor, output: _Tensor, slots: _Tensor, offset: int, size: int, add_inputs: bool = True
) -> None:
    """Add inputs x weights, or write it, to `size` columns from `offset` on."""
    products = _products(inputs, weights, slots, output)
    if add_inputs:
        output[:, offset : offset + size] += products
    else:
        output[:, offset : offset + size] = products


def _products(inputs: _Tensor, weights: _Tensor, slots: _Tensor, like: _Tensor) -> _Tensor:
    """Each token times the matrix of its slot: inputs (tokens, in), weights (slots, [1,] out, in), slots (tokens)."""
    inputs, weights = inputs.to(like.dtype), weights.squeeze(1) if weights.dim() == 4 else weights
    of_tokens: list[int] = slots.tolist()
    used = set(of_tokens)
    if len(used) == 1 and (slot := of_tokens[0]) != _BASE:
        return inputs @ weights[slot].to(like.dtype).T
    products = inputs.new_zeros((inputs.shape[0], weights.shape[1]))
    for slot in used - {_BASE}:
        rows = (slots == slot).nonzero()[:, 0]
        products[rows] = inputs[rows] @ weights[slot].to(like.dtype).T
    return products
