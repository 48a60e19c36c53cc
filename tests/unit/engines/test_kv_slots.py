"""The memory of the slot engine."""

import subprocess
import sys

import pytest
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


LIMITED = """
import resource, torch
from transformers import LlamaConfig
from rft.engines.kv_slots import KvSlots
config = LlamaConfig(hidden_size=512, num_attention_heads=4, num_hidden_layers=1)
for mib in (65_536, 1536):
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + mib * 2**20, -1))
    memory = KvSlots.as_many_as_fit(config, slots=16, least=4, capacity=65536, dtype=torch.float32)
    print(memory.slots)
    del memory
"""


@pytest.mark.lengthy
def test_there_are_fewer_slots_where_address_space_is_limited() -> None:
    """16 slots take four GiB of it, and 4 one."""
    told = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["16", "4"]


def test_where_not_even_the_fewest_slots_fit_memory_is_said_to_be_out() -> None:
    config = LlamaConfig(hidden_size=1 << 20, num_attention_heads=1, num_hidden_layers=1)
    with pytest.raises(MemoryError, match="no address space"):
        KvSlots.as_many_as_fit(config, slots=8, least=4, capacity=1 << 26, dtype=torch.float32)
