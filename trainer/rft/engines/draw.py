"""Seeded draws: what a request samples depends on its seed, prompt and weights, not on its company in the batch."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def uniforms(seeds_N: list[int], positions_N: list[int]) -> NDArray[np.float64]:
    """One number in [0, 1) for each (seed, position): a counter-based generator, so no state is kept.

    Source: splitmix64 (Steele, Lea and Flood, OOPSLA 2014), mixed twice.
    """
    state_N = _mix(np.array(seeds_N, dtype=np.uint64)) + np.array(positions_N, dtype=np.uint64) * _GOLDEN
    return (_mix(state_N) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x_N: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x_N = x_N + _GOLDEN
    x_N = (x_N ^ (x_N >> np.uint64(30))) * _MIX_1
    x_N = (x_N ^ (x_N >> np.uint64(27))) * _MIX_2
    return x_N ^ (x_N >> np.uint64(31))


def draw(
    logits_N_V: Tensor,
    temperatures_N: list[float],
    uniforms_N: NDArray[np.float64],
    top_ps_N: list[float] | None = None,
) -> tuple[Tensor, Tensor]:
    """Tokens and their log-probabilities under the temperature-scaled distribution, by inverting its CDF.

    Temperature 0 takes the most likely token; its log-probability is then that of temperature 1. Below a `top_p` of 1
    only the most likely tokens that have that share together are drawn; log-probabilities stay those of all tokens.
    """
    logits_N_V = logits_N_V.float()
    if any(temperature != 1.0 for temperature in temperatures_N):
        scale_N = torch.tensor([temperature or 1.0 for temperature in temperatures_N], device=logits_N_V.device)
        logits_N_V = logits_N_V / scale_N[:, None]
    logprobs_N_V = torch.log_softmax(logits_N_V, dim=-1)
    probabilities_N_V = logprobs_N_V.exp().double()
    if top_ps_N is not None and min(top_ps_N) < 1.0:
        probabilities_N_V = _most_likely(probabilities_N_V, top_ps_N)
    cdf_N_V = probabilities_N_V.cumsum(dim=-1)
    wanted_N_1 = torch.from_numpy(uniforms_N).to(cdf_N_V.device)[:, None] * cdf_N_V[:, -1:]
    tokens_N = torch.searchsorted(cdf_N_V, wanted_N_1, right=True)[:, 0].clamp(max=cdf_N_V.size(1) - 1)
    if 0.0 in temperatures_N:
        is_greedy_N = torch.tensor([temperature == 0.0 for temperature in temperatures_N], device=tokens_N.device)
        tokens_N = torch.where(is_greedy_N, logits_N_V.argmax(dim=-1), tokens_N)
    return tokens_N, logprobs_N_V.gather(1, tokens_N[:, None])[:, 0]


def _most_likely(probabilities_N_V: Tensor, top_ps_N: list[float]) -> Tensor:
    """The rest set to 0: the fewest tokens whose share reaches `top_p` stay, the most likely one always does.

    Source: nucleus sampling (Holtzman et al., ICLR 2020).
    """
    sorted_N_V, order_N_V = probabilities_N_V.sort(dim=-1, descending=True, stable=True)
    share_before_N_V = sorted_N_V.cumsum(dim=-1) - sorted_N_V
    limits_N_1 = torch.tensor(top_ps_N, dtype=sorted_N_V.dtype, device=sorted_N_V.device)[:, None]
    is_kept_N_V = (share_before_N_V < limits_N_1) | (limits_N_1 >= 1.0)
    is_kept_N_V[:, 0] = True
    return torch.zeros_like(sorted_N_V).scatter(1, order_N_V, sorted_N_V * is_kept_N_V)
