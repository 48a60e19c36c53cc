"""The default engine: continuous batching over slots, in a thread of its own.

New requests join the running batch at any step, finished ones leave it, and what a conversation has computed stays
in its slot, so that its next turn computes only what is new. Why not the batcher of transformers: see
`docs/decisions/0001-own-continuous-batcher.md`.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import torch
from transformers import PreTrainedModel

from rft.core.errors import SamplerError
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest
from rft.trainer.engines.adapter_weights import MergedAdapter
from rft.trainer.engines.draw import draw, uniforms
from rft.trainer.engines.kv_slots import ATTENTION, KvSlots, Segment, SlotBatch
from rft.trainer.engines.slot_table import Place, SlotTable, shared_prefix
from rft.trainer.policy import without_router_logits

_TOKENS_PER_PASS = 2048
"""New tokens computed at once at most; longer prompts take several passes."""
_WORTH_WAITING_TOKENS = 128
"""The rollouts of a group start at once with the same prompt: one computes it, the others wait and copy."""
_MEMORY_BYTES = 4 << 30
_MAX_SLOTS = 256


@dataclass(slots=True, eq=False)
class _Running:
    """One request in the batch."""

    request: SampleRequest
    answer: "asyncio.Future[Sample]"
    admitted: "asyncio.Future[None]"
    """Settled once it leaves the queue, one way or another."""
    loop: asyncio.AbstractEventLoop
    tokens: list[int]
    """Prompt and what was sampled so far."""
    slot: int = -1
    computed: int = 0
    """Leading tokens whose keys and values are in the slot."""
    logprobs: list[float] = field(default_factory=list[float])
    is_cancelled: bool = False

    @property
    def sampled(self) -> int:
        return len(self.tokens) - len(self.request.prompt_ids)


@dataclass(slots=True)
class _NewWeights:
    version: int
    adapter_dir: Path
    done: "Future[None]"


class SlotEngine:
    """An `Engine` on any causal LM with full attention in every layer. Owns `model`."""

    def __init__(self, model: PreTrainedModel, *, max_context_tokens: int, threads: int = 1) -> None:
        if not supports(model):
            raise SamplerError(f"{type(model).__name__} has layers without plain full attention")
        without_router_logits(model).eval()
        model.set_attn_implementation(ATTENTION)
        config = model.config.get_text_config()
        self._model, self._adapter, self._threads = model, MergedAdapter(model), threads
        self._max_context_tokens = max_context_tokens
        self._memory = KvSlots(
            config, slots=_slots(config, max_context_tokens), capacity=max_context_tokens, dtype=model.dtype
        )
        self._table = SlotTable(self._memory)
        self._version = 0
        self._inbox: deque[_Running | _NewWeights] = deque()
        self._waiting: deque[_Running] = deque()
        self._running: list[_Running] = []
        self._wake = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    @property
    def policy_version(self) -> int:
        """The step that produced the weights now sampling."""
        return self._version

    @property
    def max_context_tokens(self) -> int:
        """Prompt plus completion at most."""
        return self._max_context_tokens

    async def sample(self, request: SampleRequest) -> Sample:
        """One sample. Cancelling the task frees the slot. Raises SamplerError."""
        if self._is_closed:
            raise SamplerError("the engine is closed")
        if not request.prompt_ids or request.max_tokens < 1:
            raise SamplerError("a request needs a prompt and at least one token to sample")
        if len(request.prompt_ids) + request.max_tokens > self._max_context_tokens:
            raise SamplerError(f"prompt and completion exceed {self._max_context_tokens} tokens")
        loop = asyncio.get_running_loop()
        running = _Running(request, loop.create_future(), loop.create_future(), loop, list(request.prompt_ids))
        self._inbox.append(running)
        self._wake.set()
        try:
            with request.progress.queued():
                await running.admitted
            return await running.answer
        except asyncio.CancelledError:
            running.is_cancelled = True
            request.progress.sampled_tokens = running.sampled
            raise

    async def publish(self, version: int, adapter_dir: Path) -> None:
        """Sample from this adapter from now on; everything computed under the old one is forgotten."""
        command = _NewWeights(version, adapter_dir, Future())
        self._inbox.append(command)
        self._wake.set()
        await asyncio.wrap_future(command.done)

    async def close(self) -> None:
        """Stop the thread; whoever still waits gets SamplerError."""
        self._is_closed = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        torch.set_num_threads(self._threads)
        with torch.inference_mode():
            while not self._is_closed:
                self._take_inbox()
                if not self._running and not self._waiting:
                    self._wake.wait()
                    self._wake.clear()
                    continue
                try:
                    self._pass()
                except Exception as error:
                    self._fail_all(SamplerError(f"the engine failed: {error}"))
        self._take_inbox()
        self._fail_all(SamplerError("the engine is closed"))

    def _take_inbox(self) -> None:
        while self._inbox:
            item = self._inbox.popleft()
            if isinstance(item, _Running):
                self._waiting.append(item)
                continue
            try:
                if self._running or self._waiting:
                    raise SamplerError("new weights while samples are in flight")
                self._adapter.merge(item.adapter_dir)
                self._table.forget()
                self._version = item.version
                item.done.set_result(None)
            except SamplerError as error:
                item.done.set_exception(error)

    def _pass(self) -> None:
        """One forward pass over everybody; admits, samples and lets go."""
        for running in [running for running in self._running if running.is_cancelled]:
            self._leave(running)
        self._admit()
        segments, batch = self._schedule()
        if not batch:
            return
        new_tokens = [
            token for running, segment in zip(batch, segments, strict=True)
            for token in running.tokens[segment.past : segment.past + segment.length]
        ]  # fmt: skip
        ends = list(accumulate(segment.length for segment in segments))
        slot_batch = SlotBatch(self._memory, segments)
        for running, segment in zip(batch, segments, strict=True):
            running.computed += segment.length
        wanted = [i for i, running in enumerate(batch) if running.computed == len(running.tokens)]
        logits = self._model(
            input_ids=torch.tensor(new_tokens)[None],
            position_ids=slot_batch.positions_T[None],
            use_cache=False,
            logits_to_keep=torch.tensor([ends[i] - 1 for i in wanted], dtype=torch.long),
            slot_batch=slot_batch,
        ).logits[0]
        if wanted:
            self._sample([batch[i] for i in wanted], logits)

    def _schedule(self) -> tuple[list[Segment], list[_Running]]:
        """Who computes how many tokens in this pass, sorted so that neighbours are alike."""
        budget = _TOKENS_PER_PASS
        chosen: list[tuple[Segment, _Running]] = []
        for running in self._running:
            length = min(len(running.tokens) - running.computed, budget)
            if length:
                budget -= length
                chosen.append((Segment(running.slot, running.computed, length), running))
        chosen.sort(key=lambda pair: (pair[0].length > 1, pair[0].past + pair[0].length))
        return [segment for segment, _ in chosen], [running for _, running in chosen]

    def _sample(self, batch: Sequence[_Running], logits: torch.Tensor) -> None:
        uniforms_N = uniforms([r.request.seed for r in batch], [r.sampled for r in batch])
        tokens_N, logprobs_N = draw(logits, [r.request.temperature for r in batch], uniforms_N)
        finished: list[tuple[_Running, Sample | SamplerError]] = []
        for running, token, logprob in zip(batch, tokens_N.tolist(), logprobs_N.tolist(), strict=True):
            running.tokens.append(token)
            running.logprobs.append(logprob)
            is_stopped = token in running.request.stop_token_ids
            if is_stopped or running.sampled >= running.request.max_tokens:
                self._leave(running)
                reason = FinishReason.STOP if is_stopped else FinishReason.LENGTH
                token_ids = tuple(running.tokens[len(running.request.prompt_ids) :])
                finished.append((running, Sample(token_ids, tuple(running.logprobs), reason)))
        _deliver(finished)

    def _admit(self) -> None:
        admitted: list[_Running] = []
        for _ in range(len(self._waiting)):
            running = self._waiting.popleft()
            if running.is_cancelled:
                continue
            place = self._place(running)
            if place is None:
                self._waiting.append(running)
                continue
            running.slot, running.computed = place.slot, place.known_tokens
            self._running.append(running)
            admitted.append(running)
        _deliver([(running, None) for running in admitted])

    def _place(self, running: _Running) -> Place | None:
        """A slot, or None while none is free or while somebody else computes the same long prompt."""
        place = self._table.resume(running.tokens)
        if place is not None:
            return place
        leader, shared = self._leader(running)
        if leader is not None and leader.computed < shared:
            return None
        place = self._table.take(running.tokens)
        if place is not None and leader is not None and shared > place.known_tokens:
            self._memory.copy_prefix(leader.slot, place.slot, shared)
            return Place(place.slot, shared)
        return place

    def _leader(self, running: _Running) -> tuple[_Running | None, int]:
        """Who in the batch shares a prefix worth waiting for, and how long it is."""
        prompt, opening = running.tokens[:-1], running.tokens[:_WORTH_WAITING_TOKENS]
        if len(prompt) >= _WORTH_WAITING_TOKENS:
            for other in self._running:
                if other.tokens[:_WORTH_WAITING_TOKENS] == opening:
                    return other, shared_prefix(prompt, other.request.prompt_ids)
        return None, 0

    def _leave(self, running: _Running) -> None:
        self._running.remove(running)
        self._table.release(running.slot, running.tokens[: running.computed])

    def _fail_all(self, error: SamplerError) -> None:
        _deliver([(running, error) for running in (*self._running, *self._waiting)])
        self._running.clear()
        self._waiting.clear()
        self._table.forget()


def supports(model: PreTrainedModel) -> bool:
    """Whether every layer attends to everything before it, through the attention interface."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    has_window = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return bool(model._supports_attention_backend and set(kinds) == {"full_attention"} and not has_window)  # pyright: ignore[reportPrivateUsage]


def _slots(config: object, capacity: int) -> int:
    memory = KvSlots.bytes_per_token(config) * capacity  # pyright: ignore[reportArgumentType]
    return max(4, min(_MAX_SLOTS, _MEMORY_BYTES // memory))


def _deliver(results: Sequence[tuple[_Running, Sample | SamplerError | None]]) -> None:
    """Hand out answers, or None for "admitted", with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Running, Sample | SamplerError | None]]] = {}
    for running, result in results:
        by_loop.setdefault(running.loop, []).append((running, result))
    for loop, answers in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_answer, answers)


def _answer(answers: Sequence[tuple[_Running, Sample | SamplerError | None]]) -> None:
    for running, result in answers:
        if not running.admitted.done():
            running.admitted.set_result(None)
        if result is None or running.answer.done():
            continue
        if isinstance(result, SamplerError):
            running.answer.set_exception(result)
        else:
            running.answer.set_result(result)
