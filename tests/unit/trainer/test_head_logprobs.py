"""Log-probabilities in tiles: those of a plain softmax, in memory that does not grow with the tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from trl.kernels.chunked_logprob import ChunkedLogProbFunction

from rft.trainer import head_logprobs
from rft.trainer.head_logprobs import HeadLogprobs

_V, _H = 37, 8


def _drawn(tokens: int, *, has_bias: bool, seed: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden_N_H, weight_V_H = (torch.randn(n, _H, generator=generator) for n in (tokens, _V))
    bias_V = torch.randn(_V, generator=generator) if has_bias else None
    targets_N = torch.randint(_V, (tokens,), generator=generator)
    return hidden_N_H, weight_V_H, bias_V, targets_N, torch.randn(tokens, generator=generator)


@pytest.mark.lengthy
@given(
    tokens=st.integers(0, 40),
    has_bias=st.booleans(),
    temperature=st.sampled_from([1.0, 0.6]),
    softcap=st.sampled_from([None, 2.5]),
    scale=st.sampled_from([1.0, 0.25]),
    tile=st.sampled_from([(5 * _V, 1), (40, 7), (3, 40), (1000, 1)]),
    seed=st.integers(0, 999),
)
def test_values_and_gradient_are_those_of_trl(
    tokens: int,
    has_bias: bool,
    temperature: float,
    softcap: float | None,
    scale: float,
    tile: tuple[int, int],
    seed: int,
) -> None:
    hidden_N_H, weight_V_H, bias_V, targets_N, upstream_N = _drawn(tokens, has_bias=has_bias, seed=seed)
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_logprobs, "_TILE_ELEMENTS", tile[0])
        patch.setattr(head_logprobs, "_TILE_TOKENS", tile[1])
        for function in (ChunkedLogProbFunction, HeadLogprobs):
            given_N_H = hidden_N_H.clone().requires_grad_()
            logprobs_N, entropies_N, *_ = function.apply(
                given_N_H, weight_V_H, bias_V, targets_N, temperature, 16, softcap, scale, ("entropy",)
            )
            (logprobs_N * upstream_N).sum().backward()
            assert given_N_H.grad is not None
            found.append((logprobs_N.detach(), entropies_N.detach(), given_N_H.grad))
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-5)  # Entropies near 0 cancel.


def test_what_is_kept_for_the_way_back_does_not_grow_with_the_vocabulary() -> None:
    hidden_N_H, weight_V_H, _, targets_N, _ = _drawn(30, has_bias=False, seed=1)
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        HeadLogprobs.apply(hidden_N_H.requires_grad_(), weight_V_H, None, targets_N, 1.0, 16)
    assert [tensor.shape for tensor in kept] == [(30, _H)]


def test_without_a_gradient_nothing_is_kept_and_a_head_in_training_is_refused() -> None:
    hidden_N_H, weight_V_H, _, targets_N, _ = _drawn(3, has_bias=False, seed=1)
    logprobs_N, *_ = HeadLogprobs.apply(hidden_N_H, weight_V_H, None, targets_N, 1.0, 16)
    assert not logprobs_N.requires_grad
    with pytest.raises(ValueError, match="frozen"):
        HeadLogprobs.apply(hidden_N_H, weight_V_H.requires_grad_(), None, targets_N, 1.0, 16)
