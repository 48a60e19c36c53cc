"""Log-probabilities of given tokens straight from hidden states, a few tokens at a time.

Logits of all tokens would be the largest tensor of an update by far: vocabulary x tokens. Here they exist for a chunk
of tokens only, in the backward pass as well: beside its log-probability each token keeps how that changes with its
hidden state, one vector, and the backward pass scales it. The chunk's logits are computed once, not again on the way
back, which spares a third of the head's work. Takes the place of TRL's function on devices without Triton, whose tiles
of 4,096 tokens x 32,768 entries take gigabytes there.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from trl.trainer import utils as trl_utils

_CHUNK_ELEMENTS = 16 * 2**20
"""Tokens x vocabulary of one chunk: 64 MiB of logits, and as much again while they are turned into probabilities."""
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
        for chunk in _chunks(len(hidden_N_H), len(weight_V_H)):
            logits = hidden_N_H[chunk] @ weight_V_H.T
            if bias_V is not None:
                logits += bias_V
            logits, rates = _scaled(logits.float(), temperature, softcap, logit_scale)
            logprobs_N[chunk], entropies_N[chunk], slope_C_H = _of_chunk(
                logits, rates, weight_V_H, targets_N[chunk], is_slope_wanted=is_needed
            )
            if slopes_N_H is not None and slope_C_H is not None:
                slopes_N_H[chunk] = slope_C_H
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


def _chunks(tokens: int, vocabulary: int) -> list[slice]:
    size = max(1, _CHUNK_ELEMENTS // vocabulary)
    return [slice(start, start + size) for start in range(0, tokens, size)]


def _scaled(
    logits_C_V: Tensor, temperature: float, softcap: float | None, logit_scale: float
) -> tuple[Tensor, Tensor | float]:
    """In place: the logits that are sampled from, and how fast each changes with what the head gave."""
    factor = logit_scale / temperature
    if softcap is None:
        return logits_C_V if factor == 1.0 else logits_C_V.mul_(factor), factor
    bent = logits_C_V.mul_(logit_scale / softcap).tanh_()
    rates = (1 - bent * bent) * factor
    return bent.mul_(softcap / temperature), rates


def _of_chunk(
    logits_C_V: Tensor, rates: Tensor | float, weight_V_H: Tensor, targets_C: Tensor, *, is_slope_wanted: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Log-probabilities, entropies, and the log-probabilities' slopes by hidden state (C, H). Overwrites the logits."""
    logits_C_V.sub_(logits_C_V.amax(-1, keepdim=True))
    chosen_C = logits_C_V.gather(-1, targets_C[:, None])[:, 0]
    weights_C_V = logits_C_V.exp()
    sums_C = weights_C_V.sum(-1)
    logs_C = sums_C.log()
    entropies_C = logs_C - torch.einsum("cv,cv->c", weights_C_V, logits_C_V) / sums_C
    if not is_slope_wanted:
        return chosen_C - logs_C, entropies_C, None
    if isinstance(rates, Tensor):
        ours_C_1, weights_C_V = rates.gather(-1, targets_C[:, None]), weights_C_V.mul_(rates)
        expected_C_H = weights_C_V.to(weight_V_H.dtype) @ weight_V_H / sums_C[:, None]
        return chosen_C - logs_C, entropies_C, ours_C_1 * weight_V_H[targets_C] - expected_C_H
    expected_C_H = weights_C_V.to(weight_V_H.dtype) @ weight_V_H / sums_C[:, None]
    return chosen_C - logs_C, entropies_C, (weight_V_H[targets_C] - expected_C_H) * rates
