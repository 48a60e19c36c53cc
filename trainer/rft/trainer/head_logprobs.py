"""Log-probabilities of given tokens straight from hidden states, one tile of logits at a time.

Logits of all tokens would be the largest tensor of an update by far: vocabulary x tokens. Here they exist for a tile
only, some tokens and a part of the vocabulary, in the backward pass as well: beside its log-probability each token
keeps how that changes with its hidden state, one vector, and the backward pass scales it. A tile's logits are computed
once, not again on the way back, which spares a third of the head's work. Takes the place of TRL's function on devices
without Triton, whose tiles of 4,096 tokens x 32,768 entries take gigabytes there.

Sums over the vocabulary are kept relative to the largest logit so far and scaled down where a larger one comes (Milakov
and Gimelshein, "Online normalizer calculation for softmax", 2018).
Shapes: N tokens, C of them in a tile, V entries of the vocabulary, B of them in a tile, H hidden size.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from trl.trainer import utils as trl_utils

_TILE_ELEMENTS = 4 * 2**20
"""Of one tile: 16 MiB of logits and as much again of weights, which a processor's cache may hold together."""
_TILE_TOKENS = 2048
"""Of one tile at least: products of fewer rows take up to half as long again for each."""
_TRL_FUNCTION = "_ChunkedLogProbFunction"


class HeadLogprobs(torch.autograd.Function):
    """Log-probability and entropy of N tokens. The head is frozen; entropies carry no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_N_H: Tensor,
        weight_V_H: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        temperature: float,
        chunk_size: int,
        softcap: float | None = None,
        logit_scale: float = 1.0,
        outputs: tuple[str, ...] = (),
    ) -> tuple[Tensor, Tensor, None, None, None]:
        """The arguments and results of TRL's function; `chunk_size` is its own."""
        del chunk_size, outputs
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            raise ValueError("the language model head must be frozen")
        ctx.set_materialize_grads(False)
        is_needed = ctx.needs_input_grad[0]
        logprobs_N = hidden_N_H.new_empty(len(hidden_N_H), dtype=torch.float32)
        entropies_N = torch.empty_like(logprobs_N)
        slopes_N_H = torch.empty_like(hidden_N_H) if is_needed else None
        size = max(1, min(len(hidden_N_H), max(_TILE_TOKENS, _TILE_ELEMENTS // len(weight_V_H))))
        width = min(len(weight_V_H), max(1, _TILE_ELEMENTS // size))
        # Memory that all tiles share: pages given back after each tile would be cleared anew for the next.
        logits, weights = hidden_N_H.new_empty(size * width), logprobs_N.new_empty(size * width)
        for chunk in _slices(len(hidden_N_H), size):
            sums = _Sums.of_nothing(targets_N[chunk], hidden_N_H.shape[1])
            for part in _slices(len(weight_V_H), width):
                shape = len(sums.targets_C), part.stop - part.start
                logits_C_B = torch.matmul(hidden_N_H[chunk], weight_V_H[part].T, out=_shaped(logits, shape))
                if bias_V is not None:
                    logits_C_B += bias_V[part]
                logits_C_B, slopes_C_B = _scaled(logits_C_B.float(), temperature, softcap, logit_scale)
                rows_B_H = weight_V_H[part] if is_needed else None
                sums.add(logits_C_B, slopes_C_B, rows_B_H, part, weights_C_B=_shaped(weights, shape))
            logprobs_N[chunk], entropies_N[chunk] = sums.logprobs_C, sums.entropies_C
            if slopes_N_H is not None:
                slopes_N_H[chunk] = sums.slopes(weight_V_H) * (logit_scale / temperature)
        if slopes_N_H is not None:
            ctx.save_for_backward(slopes_N_H)
        ctx.mark_non_differentiable(entropies_N)
        return logprobs_N, entropies_N, None, None, None

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Each token's vector times what the loss says of its log-probability."""
        (slopes_N_H,) = ctx.saved_tensors
        grad_N = grads[0]
        return (None if grad_N is None else slopes_N_H * grad_N[:, None].to(slopes_N_H.dtype), *[None] * 8)


@contextmanager
def small_chunks_without_triton(device: torch.device) -> Generator[None]:
    """TRL's fused head computes with `HeadLogprobs` inside, where the device has no Triton."""
    original = getattr(trl_utils, _TRL_FUNCTION)
    if device.type != "cuda":
        setattr(trl_utils, _TRL_FUNCTION, HeadLogprobs)
    try:
        yield
    finally:
        setattr(trl_utils, _TRL_FUNCTION, original)


@dataclass(slots=True)
class _Sums:
    """What was added up of the vocabulary so far, each entry weighted by exp(its logit - the largest one)."""

    targets_C: Tensor
    largest_C: Tensor
    weights_C: Tensor
    """Sum of the weights."""
    logits_C: Tensor
    """Weighted sum of logits, relative to the largest one."""
    heads_C_H: Tensor
    """Weighted sum of the head's rows, times their slopes where logits are capped."""
    target_logits_C: Tensor
    target_slopes_C: Tensor

    @classmethod
    def of_nothing(cls, targets_C: Tensor, hidden_size: int) -> "_Sums":
        """Before the first part of the vocabulary."""
        zeros_C = torch.zeros_like(targets_C, dtype=torch.float32)
        smallest_C = torch.full_like(zeros_C, torch.finfo(torch.float32).min)
        heads_C_H = zeros_C.new_zeros((len(targets_C), hidden_size))
        return cls(targets_C, smallest_C, zeros_C, zeros_C, heads_C_H, zeros_C, torch.ones_like(zeros_C))

    def add(
        self,
        logits_C_B: Tensor,
        slopes_C_B: Tensor | None,
        rows_B_H: Tensor | None,
        part: slice,
        *,
        weights_C_B: Tensor,
    ) -> None:
        """A part of the vocabulary; `rows_B_H`: of the head, None where no gradient is wanted.

        Overwrites the logits and `weights_C_B`, whose content is of no matter.
        """
        self._find_targets(logits_C_B, slopes_C_B, part)
        largest_C = torch.maximum(self.largest_C, logits_C_B.amax(-1))
        growth_C = self.largest_C - largest_C
        kept_C = growth_C.exp()
        torch.exp(logits_C_B.sub_(largest_C[:, None]), out=weights_C_B)
        added_C = logits_C_B.mul_(weights_C_B).sum(-1)
        self.logits_C = kept_C * (self.logits_C + growth_C * self.weights_C) + added_C
        self.weights_C = kept_C * self.weights_C + weights_C_B.sum(-1)
        self.largest_C = largest_C
        if rows_B_H is not None:
            self._add_heads(weights_C_B if slopes_C_B is None else weights_C_B.mul_(slopes_C_B), rows_B_H, kept_C)

    def _add_heads(self, weights_C_B: Tensor, rows_B_H: Tensor, kept_C: Tensor) -> None:
        self.heads_C_H.mul_(kept_C[:, None])
        if rows_B_H.dtype == self.heads_C_H.dtype:
            self.heads_C_H.addmm_(weights_C_B, rows_B_H)
        else:
            self.heads_C_H.add_(weights_C_B.to(rows_B_H.dtype) @ rows_B_H)

    def _find_targets(self, logits_C_B: Tensor, slopes_C_B: Tensor | None, part: slice) -> None:
        is_here_C = (self.targets_C >= part.start) & (self.targets_C < part.stop)
        places_C_1 = torch.where(is_here_C, self.targets_C - part.start, 0)[:, None]
        self.target_logits_C = torch.where(is_here_C, logits_C_B.gather(-1, places_C_1)[:, 0], self.target_logits_C)
        if slopes_C_B is not None:
            self.target_slopes_C = torch.where(is_here_C, slopes_C_B.gather(-1, places_C_1)[:, 0], self.target_slopes_C)

    @property
    def logprobs_C(self) -> Tensor:
        """Of the targets."""
        return self.target_logits_C - self.largest_C - self.weights_C.log()

    @property
    def entropies_C(self) -> Tensor:
        """Of the distributions."""
        return self.weights_C.log() - self.logits_C / self.weights_C

    def slopes(self, weight_V_H: Tensor) -> Tensor:
        """How the log-probabilities change with the hidden states (C, H), but for the logits' factor."""
        return self.target_slopes_C[:, None] * weight_V_H[self.targets_C] - self.heads_C_H / self.weights_C[:, None]


def _shaped(flat: Tensor, shape: tuple[int, int]) -> Tensor:
    return flat[: shape[0] * shape[1]].view(shape)


def _slices(length: int, size: int) -> list[slice]:
    return [slice(start, min(length, start + size)) for start in range(0, length, size)]


def _scaled(
    logits_C_B: Tensor, temperature: float, softcap: float | None, logit_scale: float
) -> tuple[Tensor, Tensor | None]:
    """In place: the logits that are sampled from, and their slopes where they are capped, but for the factor."""
    if softcap is None:
        factor = logit_scale / temperature
        return logits_C_B if factor == 1.0 else logits_C_B.mul_(factor), None
    bent = logits_C_B.mul_(logit_scale / softcap).tanh_()
    slopes = 1 - bent * bent
    return bent.mul_(softcap / temperature), slopes
