"""The memory of the slot engine."""

import torch
from transformers import LlamaConfig

from rft.engines.kv_slots import KvSlots


def test_memory_that_nobody_wrote_to_is_zero_whoever_had_it_before() -> None:
    config = LlamaConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=2)
    for dtype in (torch.float32, torch.bfloat16):
        for _ in range(20):
            before = [torch.full((4, 16, 2, 8), float("nan"), dtype=dtype) for _ in range(8)]
            del before
            memory = KvSlots(config, slots=4, capacity=16, dtype=dtype)
            assert all(not bool(tensor.any()) for tensor in (*memory.keys, *memory.values))
            assert memory.keys[0].dtype is dtype
