"""Logits of samples that not every token may follow."""

import numpy as np
import torch
from torch import Tensor


def forbid(logits_V: Tensor, allowed: bytes) -> None:
    """Set those of all other tokens to minus infinity. `allowed`: a bit each, the lowest first; none: not allowed."""
    bits = np.frombuffer(allowed, np.uint8)
    is_allowed = np.unpackbits(bits, count=min(8 * len(bits), len(logits_V)), bitorder="little").astype(bool)
    is_allowed_V = torch.zeros(len(logits_V), dtype=torch.bool)
    is_allowed_V[: len(is_allowed)] = torch.from_numpy(is_allowed)
    logits_V.masked_fill_(~is_allowed_V.to(logits_V.device), float("-inf"))
