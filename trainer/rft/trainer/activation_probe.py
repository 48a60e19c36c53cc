"""What a pass keeps for the backward pass, found on a model without weights: shapes alone are computed.

Attention and experts choose by values, which such a model has none of: in their place stands what keeps as much.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from rft.trainer.token_budget import kept_bytes

PROBE = "rft_activation_probe"
"""Name of both, as implementations of attention and of experts."""
_TOKENS = 64


def kept_bytes_per_token(policy: nn.Module, base: PreTrainedModel) -> int | None:
    """In single precision, for a model made with `PROBE`; None where its layers compute with values after all."""
    ids = torch.zeros((1, _TOKENS), dtype=torch.long, device="meta")
    policy.train()
    try:
        with kept_bytes(policy) as kept:
            hidden = base.base_model(input_ids=ids, use_cache=False).last_hidden_state
            # The head keeps a vector for each token.
            return (kept() + hidden.nbytes) // _TOKENS
    except (RuntimeError, NotImplementedError, ValueError, TypeError):
        return None


class _Keep(torch.autograd.Function):
    """What comes out has the shape of the first argument; all others are kept."""

    @staticmethod
    def forward(ctx: Any, *kept: Tensor) -> Tensor:
        ctx.save_for_backward(*kept[1:])
        return torch.empty_like(kept[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        raise AssertionError("nothing is learned here")


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **_: object
) -> tuple[Tensor, None]:
    """(1, T, heads, D), as any attention."""
    del module, attention_mask
    shape = (*query.shape[:-1], value.size(-1))
    return _Keep.apply(query.new_empty(shape), query, key, value).transpose(1, 2), None  # pyright: ignore[reportReturnType, reportOptionalMemberAccess]


def _experts(module: nn.Module, hidden_states: Tensor, top_k_index: Tensor, _: Tensor) -> Tensor:
    """Of each expert of a token: gate, up, their product, and what comes out."""
    tokens, hidden = hidden_states.shape
    weights = next(weight for name, weight in module.named_parameters() if name == "down_proj")
    inner = weights.numel() // (weights.size(0) * hidden)
    kept = hidden_states.new_empty((tokens, top_k_index.size(-1) * (3 * inner + hidden)))
    return _Keep.apply(hidden_states, kept)  # pyright: ignore[reportReturnType]


AttentionInterface.register(PROBE, _attention)  # pyright: ignore[reportArgumentType]
ALL_EXPERTS_FUNCTIONS.register(PROBE, _experts)  # pyright: ignore[reportArgumentType]
