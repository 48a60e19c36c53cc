"""Conversations share one budget of memory: short ones are many at once, and none is told anything else for it."""

import asyncio
import copy
import mmap
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from transformers import LlamaConfig, Qwen3Config, Qwen3ForCausalLM

from rft.engines import slot_engine, slot_fit, slot_scheduler
from rft.engines.kv_slots import KvSlots, Segment
from rft.engines.slot_engine import SlotEngine
from rft.engines.slot_requests import Running
from rft.engines.slot_scheduler import SlotScheduler
from rft.engines.slot_table import Place, SlotTable
from rft.rollouts.sampler import Sample, SampleProgress, SampleRequest

CONFIG = LlamaConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=2)
CONTEXT = 1024


@pytest.fixture(scope="module")
def model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=4096,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


class WatchedScheduler(SlotScheduler):
    """Counts what becomes of requests."""

    preempted = most_at_once = 0

    def next_pass(self) -> list[tuple[Segment, Running]]:
        scheduled = super().next_pass()
        self.most_at_once = max(self.most_at_once, len(self._running))
        return scheduled

    def _preempt(self, running: Running) -> None:
        super()._preempt(running)
        self.preempted += 1


class WatchedEngine(SlotEngine):
    """Counts tokens that memory is touched for."""

    most_tokens = 0

    def _pass(self) -> None:
        super()._pass()
        self.most_tokens = max(self.most_tokens, self._memory.touched_tokens)

    @property
    def scheduler(self) -> WatchedScheduler:
        assert isinstance(self._scheduler, WatchedScheduler)
        return self._scheduler


def sampled(
    model: Qwen3ForCausalLM, monkeypatch: pytest.MonkeyPatch, *, budget: int, rollouts: int = 24
) -> tuple[list[list[Sample]], WatchedEngine]:
    """Three turns of each rollout, all rollouts at once; `budget` in tokens."""
    monkeypatch.setattr(slot_engine, "SlotScheduler", WatchedScheduler)
    monkeypatch.setattr(slot_fit, "_MEMORY_BYTES", budget * KvSlots.bytes_per_token(model.config))
    engine = WatchedEngine(copy.deepcopy(model), max_context_tokens=CONTEXT)

    async def converse(number: int) -> list[Sample]:
        tokens = [(7 * number + place) % 400 + 20 for place in range(30)]
        turns: list[Sample] = []
        for turn in range(3):
            asked = SampleRequest(
                f"{number}.{turn}", tokens, 100, (3,), seed=10 * number + turn, rollout_id=f"{number}"
            )
            turns.append(await engine.sample(asked))
            tokens = [*tokens, *turns[-1].token_ids, 50 + number, 60, 70]
            await asyncio.sleep(0.01 * (number % 5))
        engine.rollout_ended(f"{number}")
        return turns

    async def all_of_them() -> list[list[Sample]]:
        try:
            return list(await asyncio.gather(*map(converse, range(rollouts))))
        finally:
            await engine.close()

    return asyncio.run(all_of_them()), engine


@pytest.fixture(scope="module")
def within(model: Qwen3ForCausalLM) -> Callable[[int], tuple[list[list[Sample]], WatchedEngine]]:
    """All rollouts in an engine with a budget of tokens, once for each budget."""

    @cache
    def sampled_within(budget: int) -> tuple[list[list[Sample]], WatchedEngine]:
        with pytest.MonkeyPatch.context() as monkeypatch:
            return sampled(model, monkeypatch, budget=budget)

    return sampled_within


@pytest.mark.parametrize("budget", [3000, pytest.param(1500, marks=pytest.mark.thorough), 100])
def test_whoever_is_preempted_is_told_the_same_tokens(
    within: Callable[[int], tuple[list[list[Sample]], WatchedEngine]], budget: int
) -> None:
    ample, unhindered = within(10**6)
    scarce, engine = within(budget)
    assert unhindered.scheduler.preempted == 0
    assert engine.most_tokens <= max(budget, slot_fit.LEAST_CONVERSATIONS * CONTEXT)
    assert engine.most_tokens < unhindered.most_tokens
    assert scarce == ample


@pytest.mark.lengthy
def test_conversations_are_as_many_as_have_memory_and_not_as_would_have_it_at_full_length(
    model: Qwen3ForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = 3 * CONTEXT
    _, engine = sampled(model, monkeypatch, budget=budget, rollouts=12)
    assert engine.scheduler.most_at_once == 12
    assert engine.most_tokens <= budget


def test_the_fewest_conversations_go_on_whatever_they_take(
    within: Callable[[int], tuple[list[list[Sample]], WatchedEngine]],
) -> None:
    _, engine = within(100)
    assert engine.scheduler.most_at_once == slot_fit.LEAST_CONVERSATIONS
    assert engine.scheduler.preempted == 0


def test_who_is_preempted_waits_in_the_queue_again(model: Qwen3ForCausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rollout's time runs there."""
    monkeypatch.setattr(slot_fit, "_MEMORY_BYTES", 800 * KvSlots.bytes_per_token(model.config))
    monkeypatch.setattr(slot_engine, "SlotScheduler", WatchedScheduler)
    monkeypatch.setattr(slot_scheduler, "_ROOM_TO_GROW_TOKENS", 0)
    waits: dict[int, list[str]] = {}
    engine = WatchedEngine(copy.deepcopy(model), max_context_tokens=CONTEXT)

    @contextmanager
    def queued(number: int) -> Generator[None]:
        waits.setdefault(number, []).append("in")
        yield
        waits[number].append("out")

    async def ask(number: int) -> Sample:
        progress = SampleProgress(queued=lambda: queued(number))
        tokens = [(7 * number + place) % 400 + 20 for place in range(60)]
        return await engine.sample(SampleRequest(f"{number}", tokens, 200, (), seed=number, progress=progress))

    async def all_of_them() -> None:
        await asyncio.gather(*map(ask, range(6)))
        await engine.close()

    asyncio.run(all_of_them())
    assert engine.scheduler.preempted > 0
    assert all(steps == ["in", "out"] * (len(steps) // 2) for steps in waits.values())
    assert sum(len(steps) // 2 - 1 for steps in waits.values()) == engine.scheduler.preempted


@pytest.mark.parametrize("capacity", [1024, 1000])
def test_memory_of_an_evicted_slot_is_zeros_and_nobody_elses(capacity: int) -> None:
    memory = KvSlots(CONFIG, slots=3, capacity=capacity, dtype=torch.float32)
    for slot in range(3):
        memory.touch(slot, 900)
        for tensor in (*memory.keys, *memory.values):
            tensor[slot, :900] = slot + 1.0
    assert memory.touched_tokens == 2700
    memory.evict(1)
    assert memory.touched_tokens == 1800
    for tensor in (*memory.keys, *memory.values):
        assert bool((tensor[0, :900] == 1.0).all())
        assert bool((tensor[2, :900] == 3.0).all())
        left = int(tensor[1].count_nonzero()) * tensor.itemsize
        assert left < 2 * mmap.PAGESIZE, "but for what shares a page with its neighbours"
    memory.touch(1, 5)
    assert (memory.touched(1), memory.grows_by(1, 8)) == (5, 3)


def table_of(*held: int, budget: int) -> tuple[SlotTable, KvSlots]:
    """Free slots that hold so many tokens each, the longest unused first."""
    memory = KvSlots(CONFIG, slots=len(held), capacity=100, dtype=torch.float32)
    table = SlotTable(memory, budget=budget)
    places = [table.take(1, [0]) for _ in held]
    for place, tokens in zip(places, held, strict=True):
        assert place is not None
        memory.touch(place.slot, tokens)
        table.release(place.slot, 1, [place.slot + 1] * tokens)
    return table, memory


def test_the_longest_unused_is_forgotten_first_and_no_more_than_need_be() -> None:
    table, memory = table_of(30, 20, 10, budget=70)
    assert table.make_room(10)
    assert memory.touched_tokens == 60
    assert table.make_room(20)
    assert memory.touched_tokens == 30
    assert table.resume(1, [1] * 31) is None
    assert table.resume(1, [2] * 21) == Place(1, 20)


def test_nothing_is_forgotten_in_vain() -> None:
    table, memory = table_of(30, 20, 10, budget=70)
    assert table.resume(1, [1] * 31) == Place(0, 30)
    assert not table.make_room(50)
    assert memory.touched_tokens == 60
    assert not table.make_room(50, at_any_rate=True)
    assert memory.touched_tokens == 30, "only what is in use"
