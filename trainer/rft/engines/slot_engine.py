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
from itertools import accumulate
from pathlib import Path

import torch
from transformers import PreTrainedModel

from rft.core.errors import SamplerError
from rft.engines.base_model import without_router_logits
from rft.engines.drafts import Drafts
from rft.engines.draw import draw, uniforms
from rft.engines.kv_slots import ATTENTION, KvSlots, Segment, SlotBatch
from rft.engines.slot_fit import LEAST_CONVERSATIONS, budget_of, slots_of, supports
from rft.engines.slot_requests import Moved, NewTokens, NewWeights, Running, UnusedVersion, deliver
from rft.engines.slot_table import Place, SlotTable, shared_prefix
from rft.engines.slot_weights import OneVersion, SeveralVersions, SlotWeights
from rft.engines.version_use import VersionUse
from rft.rollouts.sampler import Sample, SampleRequest

_TOKENS_PER_PASS = 2048
"""New tokens computed at once at most; longer prompts take several passes."""
_WORTH_WAITING_TOKENS = 128
"""The rollouts of a group start at once with the same prompt: one computes it, the others wait and copy."""
_DRAFT_TOKENS = 6
"""Drafted per conversation and pass at most."""
_ROOM_TO_GROW_TOKENS = 64
"""A conversation that begins leaves so much memory to each one that is under way, or it would soon make them wait."""
_ALWAYS_WORTH_TOKENS = 32
"""A pass of so few tokens takes as long as one of a single token: it waits for the weights."""
_DRAFTED_PARAMETERS = 600_000_000
"""Drafted tokens of a pass times the model's parameters: a small model waits for everything but its arithmetic."""


class SlotEngine:
    """An `Engine` on any causal LM with full attention in every layer. Owns `model`."""

    def __init__(
        self, model: PreTrainedModel, *, max_context_tokens: int, threads: int = 1, has_versions: bool = False
    ) -> None:
        """`has_versions`: rollouts go on under the version they began with, while newer ones begin under the newest."""
        if not supports(model):
            raise SamplerError(f"{type(model).__name__} has layers without plain full attention")
        without_router_logits(model).eval()
        model.set_attn_implementation(ATTENTION)
        config = model.config.get_text_config()
        self._model, self._threads = model, threads
        self._weights: SlotWeights = SeveralVersions(model) if has_versions else OneVersion(model)
        self._max_context_tokens = max_context_tokens
        self._memory = KvSlots.as_many_as_fit(
            config, slots=slots_of(config, max_context_tokens), least=LEAST_CONVERSATIONS,
            capacity=max_context_tokens, dtype=model.dtype,
        )  # fmt: skip
        self._table, self._drafts = SlotTable(self._memory, budget=budget_of(config)), Drafts()
        self._affordable_drafts = _DRAFTED_PARAMETERS // sum(parameter.numel() for parameter in model.parameters())
        self._versions = VersionUse()
        """Used in the event loop alone."""
        self._inbox: deque[Running | NewWeights | UnusedVersion] = deque()
        self._waiting: deque[Running] = deque()
        self._running: list[Running] = []
        self._is_full = False
        """Whether one that waits has found no memory: then none behind it takes any."""
        self._wake = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    @property
    def policy_version(self) -> int:
        """The step that produced the weights that new rollouts sample from."""
        return self._versions.newest

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
        version = self.policy_version if request.policy_version is None else request.policy_version
        holder = request.rollout_id or f"request {id(request)}"
        self.rollout_began(holder, version)
        loop = asyncio.get_running_loop()
        prompt = list(request.prompt_ids)
        running = Running(request, loop.create_future(), loop, prompt, version)
        try:
            with running.queue:
                running.enter_queue()
                self._inbox.append(running)
                self._wake.set()
                return await running.answer
        except asyncio.CancelledError:
            running.is_cancelled = True
            running.answer.cancel()  # Nobody waits for what the engine may still have to say.
            request.progress.sampled_tokens = running.sampled
            raise
        finally:
            if not request.rollout_id:
                self.rollout_ended(holder)

    def rollout_began(self, rollout_id: str, version: int) -> None:
        """The version is kept for the rollout until it has ended. Raises SamplerError where it is gone."""
        if not self._versions.hold(rollout_id, version):
            raise SamplerError(f"policy version {version} is not served any more")

    def rollout_ended(self, rollout_id: str) -> None:
        """The rollout samples no more."""
        self._versions.release(rollout_id)
        self._drop_unused()

    async def publish(self, version: int, adapter_dir: Path) -> None:
        """New rollouts sample from this adapter from now on; older versions stay only in an engine of several."""
        await self._change_weights(version, adapter_dir)

    async def publish_base(self, version: int) -> None:
        """Sample from the base model from now on."""
        await self._change_weights(version, None)

    async def _change_weights(self, version: int, adapter_dir: Path | None) -> None:
        command = NewWeights(version, adapter_dir, Future())
        self._inbox.append(command)
        self._wake.set()
        await asyncio.wrap_future(command.done)
        if self._weights.are_several:
            self._versions.publish(version)
            self._drop_unused()
        else:
            self._versions.replace(version)

    def _drop_unused(self) -> None:
        for version in self._versions.unused:
            self._versions.forget(version)
            self._inbox.append(UnusedVersion(version))

    async def close(self) -> None:
        """Stop the thread; requests that still wait raise SamplerError."""
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
            match item:
                case Running():
                    self._waiting.append(item)
                case UnusedVersion():
                    self._weights.drop(item.version)
                case NewWeights():
                    self._publish(item)

    def _publish(self, new: NewWeights) -> None:
        try:
            self._weights.publish(new.version, new.adapter_dir, is_idle=not self._running and not self._waiting)
        except SamplerError as error:
            new.done.set_exception(error)
            return
        if not self._weights.are_several:
            self._table.forget()
        new.done.set_result(None)

    def _pass(self) -> None:
        """One forward pass over the batch: admits requests, samples, and releases finished ones."""
        for running in [running for running in self._running if running.is_cancelled]:
            self._leave(running)
        self._admit()
        segments, batch = self._schedule()
        while not self._has_memory(segments):
            self._preempt(self._running[-1])
            segments, batch = self._schedule()
        if not batch:
            return
        new_tokens: list[int] = []
        wanted: list[int] = []
        sampling: list[Running] = []
        for running, segment in zip(batch, segments, strict=True):
            reach = segment.past + segment.length
            new_tokens += running.tokens[segment.past : reach]
            running.computed = min(reach, len(running.tokens))
            if running.computed == len(running.tokens):
                sampling.append(running)
                new_tokens += running.draft
                wanted += range(len(new_tokens) - len(running.draft) - 1, len(new_tokens))
        self._weights.choose([(r.version, s.length) for r, s in zip(batch, segments, strict=True)])
        slot_batch = SlotBatch(self._memory, segments)
        logits = self._model(
            input_ids=torch.tensor(new_tokens)[None],
            position_ids=slot_batch.positions_T[None],
            use_cache=False,
            logits_to_keep=torch.tensor(wanted, dtype=torch.long),
            slot_batch=slot_batch,
        ).logits[0]
        if sampling:
            self._sample(sampling, logits)

    def _schedule(self) -> tuple[list[Segment], list[Running]]:
        """How many tokens of each request this pass computes, sorted so that similar ones are adjacent."""
        budget = _TOKENS_PER_PASS
        drafts = max(self._affordable_drafts, _ALWAYS_WORTH_TOKENS - len(self._running))
        chosen: list[tuple[Segment, Running]] = []
        for running in self._running:
            length = min(len(running.tokens) - running.computed, budget)
            if not length:
                continue
            if running.computed + length == len(running.tokens):
                self._draft(running, min(drafts, budget - length))
            drafts -= len(running.draft)
            length += len(running.draft)
            budget -= length
            chosen.append((Segment(running.slot, running.computed, length), running))
        chosen.sort(key=lambda pair: (pair[0].kind, pair[0].past + pair[0].length))
        return [segment for segment, _ in chosen], [running for _, running in chosen]

    def _has_memory(self, segments: Sequence[Segment]) -> bool:
        """Whether the pass may touch what it writes. The fewest conversations always may."""
        growth = sum(self._memory.grows_by(segment.slot, segment.past + segment.length) for segment in segments)
        are_fewest = len(self._running) <= LEAST_CONVERSATIONS
        return self._table.make_room(growth, at_any_rate=are_fewest) or are_fewest

    def _preempt(self, running: Running) -> None:
        """Back into the queue, before all others: what was sampled stays, what was computed may have to be done again.

        Its tokens will be the same: they are drawn by their place in the request.
        """
        running.draft = []
        self._leave(running)
        self._waiting.appendleft(running)
        deliver([(running, Moved.TO_QUEUE)])

    def _draft(self, running: Running, at_most: int) -> None:
        """The token that is drawn after the last drafted one still fits the request."""
        room = running.request.max_tokens - running.sampled - 1
        running.draft = self._drafts.draft(running.tokens, running.own, at_most=min(at_most, room, _DRAFT_TOKENS))

    def _sample(self, batch: Sequence[Running], logits: torch.Tensor) -> None:
        ends = list(accumulate(1 + len(running.draft) for running in batch))
        places = [(running, i) for running in batch for i in range(1 + len(running.draft))]
        uniforms_N = uniforms([r.request.seed for r, _ in places], [r.sampled + i for r, i in places])
        top_ps = [running.request.top_p for running, _ in places]
        tokens_N, logprobs_N = draw(logits, [r.request.temperature for r, _ in places], uniforms_N, top_ps)
        tokens, logprobs = tokens_N.tolist(), logprobs_N.tolist()
        finished: list[tuple[Running, Sample | SamplerError]] = []
        heard: list[tuple[Running, NewTokens]] = []
        for running, end in zip(batch, ends, strict=True):
            known, start = len(running.tokens), end - 1 - len(running.draft)
            sample = running.take(tokens[start:end], logprobs[start:end])
            if running.request.progress.on_tokens is not None:
                heard.append((running, running.tokens_since(known)))
            self._drafts.learn(running.tokens, running.own, start=known)
            if sample is not None:
                self._leave(running)
                finished.append((running, sample))
        deliver([*heard, *finished])

    def _admit(self) -> None:
        admitted: list[Running] = []
        self._is_full = False
        for _ in range(len(self._waiting)):
            running = self._waiting.popleft()
            if running.is_cancelled:
                continue
            place = self._place(running)
            if place is None:
                self._waiting.append(running)
                continue
            running.slot, running.computed = place.slot, place.known_tokens
            running.own = self._drafts.own(running.tokens)
            self._running.append(running)
            admitted.append(running)
        deliver([(running, Moved.TO_BATCH) for running in admitted])

    def _place(self, running: Running) -> Place | None:
        """A slot, or None while none is free or while somebody else computes the same long prompt."""
        place = self._table.resume(running.version, running.tokens)
        if place is not None:
            return place
        leader, shared = self._leader(running)
        if leader is not None and leader.computed < shared:
            return None
        if not self._has_room_for(running):
            return None
        place = self._table.take(running.version, running.tokens)
        if place is not None and leader is not None and shared > place.known_tokens:
            self._memory.copy_prefix(leader.slot, place.slot, shared)
            return Place(place.slot, shared)
        return place

    def _has_room_for(self, running: Running) -> bool:
        """Whether there is memory for its tokens, and for those under way to go on beside it."""
        others = len(self._running)
        wanted = len(running.tokens) + _ROOM_TO_GROW_TOKENS * (others + 1)
        self._is_full = self._is_full or (others >= LEAST_CONVERSATIONS and not self._table.make_room(wanted))
        return not self._is_full

    def _leader(self, running: Running) -> tuple[Running | None, int]:
        """The request in the batch that shares a prefix worth waiting for, and the prefix's length."""
        prompt, opening = running.tokens[:-1], running.tokens[:_WORTH_WAITING_TOKENS]
        if len(prompt) >= _WORTH_WAITING_TOKENS:
            for other in self._running:
                if other.version == running.version and other.tokens[:_WORTH_WAITING_TOKENS] == opening:
                    return other, shared_prefix(prompt, other.request.prompt_ids)
        return None, 0

    def _leave(self, running: Running) -> None:
        self._running.remove(running)
        self._table.release(running.slot, running.version, running.tokens[: running.computed])

    def _fail_all(self, error: SamplerError) -> None:
        deliver([(running, error) for running in (*self._running, *self._waiting)])
        self._running.clear()
        self._waiting.clear()
        self._table.forget()
