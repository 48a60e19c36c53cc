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
from rft.engines.constrained import forbid
from rft.engines.draw import draw, uniforms
from rft.engines.kv_slots import ATTENTION, ROWS, KvSlots, SlotBatch
from rft.engines.slot_fit import LEAST_CONVERSATIONS, budget_of, slots_of, supports
from rft.engines.slot_requests import NewTokens, NewWeights, Running, UnusedVersion, deliver
from rft.engines.slot_scheduler import SlotScheduler
from rft.engines.slot_weights import OneVersion, SeveralVersions, SlotWeights
from rft.engines.version_use import VersionUse
from rft.rollouts.sampler import Sample, SampleRequest


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
        self._rows = ROWS * max(1, threads // 2)
        """Four to each thread at least."""
        self._weights: SlotWeights = SeveralVersions(model) if has_versions else OneVersion(model)
        self._max_context_tokens = max_context_tokens
        self._memory = KvSlots.as_many_as_fit(
            config, slots=slots_of(config, max_context_tokens), least=LEAST_CONVERSATIONS,
            capacity=max_context_tokens, dtype=model.dtype,
        )  # fmt: skip
        parameters = sum(parameter.numel() for parameter in model.parameters())
        self._scheduler = SlotScheduler(self._memory, budget=budget_of(config), parameters=parameters)
        self._versions = VersionUse()
        """Used in the event loop alone."""
        self._inbox: deque[Running | NewWeights | UnusedVersion] = deque()
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
                if self._scheduler.is_idle:
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
                    self._scheduler.enqueue(item)
                case UnusedVersion():
                    self._weights.drop(item.version)
                case NewWeights():
                    self._publish(item)

    def _publish(self, new: NewWeights) -> None:
        if not new.done.set_running_or_notify_cancel():
            return  # Given up before it began. From here on it cannot be.
        self._scheduler.drop_cancelled()
        try:
            self._weights.publish(new.version, new.adapter_dir, is_idle=self._scheduler.is_idle)
        except SamplerError as error:
            new.done.set_exception(error)
            return
        except Exception as error:  # Whatever one adapter breaks, the engine goes on.
            new.done.set_exception(SamplerError(f"the engine failed: {error!r}"))
            return
        if not self._weights.are_several:
            self._scheduler.forget()
        new.done.set_result(None)

    def _pass(self) -> None:
        """One forward pass over the batch: admits requests, samples, and releases finished ones."""
        scheduled = self._scheduler.next_pass()
        if not scheduled:
            return
        new_tokens: list[int] = []
        wanted: list[int] = []
        sampling: list[Running] = []
        for segment, running in scheduled:
            reach = segment.past + segment.length
            new_tokens += running.tokens[segment.past : reach]
            running.computed = min(reach, len(running.tokens))
            if running.computed == len(running.tokens):
                sampling.append(running)
                new_tokens += running.draft
                wanted += range(len(new_tokens) - len(running.draft) - 1, len(new_tokens))
        slot_batch = SlotBatch(self._memory, [segment for segment, _ in scheduled], rows=self._rows)
        versions = [(running.version, segment.length) for segment, running in scheduled]
        self._weights.choose([*versions, (versions[-1][0], slot_batch.padding)])
        logits = self._model(
            input_ids=torch.tensor(new_tokens + [0] * slot_batch.padding)[None],
            position_ids=slot_batch.positions_T[None],
            use_cache=False,
            logits_to_keep=torch.tensor(wanted + [0] * (-len(wanted) % self._rows), dtype=torch.long),
            slot_batch=slot_batch,
        ).logits[0, : len(wanted)]
        if sampling:
            self._sample(sampling, logits)

    def _sample(self, batch: Sequence[Running], logits: torch.Tensor) -> None:
        ends = list(accumulate(1 + len(running.draft) for running in batch))
        places = [(running, i) for running in batch for i in range(1 + len(running.draft))]
        for place, (running, _) in enumerate(places):
            if (constraint := running.request.constraint) is not None:
                forbid(logits[place], constraint.allowed(running.tokens[len(running.request.prompt_ids) :]))
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
            self._scheduler.learn(running, start=known)
            if sample is not None:
                self._scheduler.leave(running)
                finished.append((running, sample))
        deliver([*heard, *finished])

    def _fail_all(self, error: SamplerError) -> None:
        deliver([(running, error) for running in self._scheduler.drain()])
