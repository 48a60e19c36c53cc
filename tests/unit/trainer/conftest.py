"""A tiny random model with the starter's tokenizer."""

import gc
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

from rft.core.turns import Trace
from tests.shared.by_hand import trace_of
from tests.shared.tiny_base import model_dir, tokenizer

__all__ = ("model_dir", "tokenizer")

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _nothing_old_to_look_through() -> None:  # pyright: ignore[reportUnusedFunction]
    """accelerate collects garbage at the beginning of every training: of earlier tests' objects only once."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def ragged_traces() -> list[Trace]:
    """Eight two-turn traces of different lengths, tool output in the middle."""
    generator = torch.Generator().manual_seed(3)

    def ids(count: int) -> list[int]:
        return torch.randint(20, 600, (count,), generator=generator).tolist()

    return [
        trace_of(ids(5 + i % 3), ("sampled", ids(4 + i)), ("tool", ids(3 + 5 * i)), ("sampled", ids(9 - i)))
        for i in range(8)
    ]
