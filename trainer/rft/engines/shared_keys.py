"""Attention on a GPU whose query heads share keys, computed by a kernel that keeps no score of every token for every
other.

transformers leaves the sharing to torch. Of its kernels flash attention can do it: in half precision, and not for all
sizes of heads on all GPUs. Where it does not apply, torch 2.13 takes plain attention without a word, whose memory grows
with the square of a rollout's length. With a copy of the keys for each query head, memory-efficient attention applies.
"""

import torch
from torch import Tensor
from torch.backends.cuda import SDPAParams
from transformers.integrations import sdpa_attention

_lets_torch_share = sdpa_attention.use_gqa_in_sdpa


def copy_keys_where_needed() -> None:
    """Have transformers copy them for each query head where flash attention does not apply. Idempotent."""
    sdpa_attention.use_gqa_in_sdpa = may_share


def may_share(attention_mask: Tensor | None, key: Tensor, value: Tensor) -> bool:
    """Whether torch is to share them; on a CPU as transformers decides."""
    if not key.is_cuda or not _lets_torch_share(attention_mask, key, value):
        return _lets_torch_share(attention_mask, key, value)
    # Queries are of the same type and size of heads. They may be the only ones with a gradient, which decides as well.
    query = key.detach().requires_grad_(torch.is_grad_enabled())
    return torch.backends.cuda.can_use_flash_attention(SDPAParams(query, key, value, None, 0.0, True, True))
