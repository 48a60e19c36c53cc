"""The default engine computes on the CPU: what a host's GPU has left decides nothing about its pages."""

import asyncio

import pytest
import torch
from transformers import PreTrainedTokenizerBase
from transformers.generation.continuous_batching import input_outputs

from rft.engines.paged_engine import PagedEngine
from rft.rollouts.sampler import SampleRequest
from tests.shared.by_hand import tiny_model


def test_pages_are_in_the_memory_of_the_host(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(device: object) -> tuple[int, int]:
        return 0, 80 * 2**30

    def none(device: object = None) -> int:
        return 0

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", none)
    monkeypatch.setattr(torch.cuda, "mem_get_info", full)
    monkeypatch.setattr(torch.cuda, "memory_reserved", none)
    monkeypatch.setattr(input_outputs, "get_available_devices", lambda: frozenset({"cpu"}))  # Nothing is pinned here.

    async def main() -> None:
        engine = PagedEngine(tiny_model(tokenizer), max_context_tokens=512)
        try:
            sample = await engine.sample(SampleRequest("one", (1, 2, 3), 4, (), seed=1))
            assert len(sample.token_ids) == 4
        finally:
            await engine.close()

    asyncio.run(main())
