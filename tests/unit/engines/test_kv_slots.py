"""The memory of the slot engine."""

import resource
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


@pytest.mark.parametrize(("mib", "slots"), [(65_536, 16), (1536, 4)])
def test_there_are_fewer_slots_where_address_space_is_limited(mib: int, slots: int) -> None:
    """16 slots take four GiB of it, and 4 one."""
    program = (
        "import torch; from transformers import LlamaConfig; from rft.engines.kv_slots import KvSlots; import resource;"
        f"used = int(open('/proc/self/statm').read().split()[0]) * {resource.getpagesize()};"
        f"resource.setrlimit(resource.RLIMIT_AS, (used + {mib} * 2**20, -1));"
        "config = LlamaConfig(hidden_size=512, num_attention_heads=4, num_hidden_layers=1);"
        "memory = KvSlots.as_many_as_fit(config, slots=16, least=4, capacity=65536, dtype=torch.float32);"
        "print(memory.slots)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(told.stdout) == slots


def test_where_not_even_the_fewest_slots_fit_memory_is_said_to_be_out() -> None:
    config = LlamaConfig(hidden_size=1 << 20, num_attention_heads=1, num_hidden_layers=1)
    with pytest.raises(MemoryError, match="no address space"):
        KvSlots.as_many_as_fit(config, slots=8, least=4, capacity=1 << 26, dtype=torch.float32)
