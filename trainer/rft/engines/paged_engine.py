"""The engine for models that slots cannot hold (sliding windows, say): transformers' continuous batching over pages.

Slower on a CPU than slots when many conversations run at once: see `docs/decisions/0001-own-continuous-batcher.md`.
"""

import asyncio
import logging
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import ContinuousBatchingConfig, GenerationConfig, PreTrainedModel
from transformers.generation.continuous_batching import cache

from rft.core.errors import SamplerError
from rft.engines.adapter_weights import MergedAdapter
from rft.engines.base_model import without_router_logits
from rft.engines.constrained import forbid
from rft.engines.draw import draw, uniforms
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest

_BLOCK_TOKENS = 32
_MOST_BLOCKS = 2048
_TOKENS_PER_PASS = 512
REQUESTS_PER_PASS = 16
"""Its attention on a CPU lets every query look at every key of the pass, masked: cost grows with the square of this."""
_LOOK_UP = "get_device_and_memory_breakdown"
_PASSES = 2
"""Whose conversations the cache has room for at their full length: those of this pass and of the next."""


def cache_tokens(max_context_tokens: int) -> int:
    """Of all conversations together. What nobody could fill is not there: each new version fills masks of its size."""
    wanted = max_context_tokens * REQUESTS_PER_PASS * _PASSES
    return min(_MOST_BLOCKS, -(-wanted // _BLOCK_TOKENS)) * _BLOCK_TOKENS


class PagedEngine:
    """An `Engine` on any model that transformers can batch continuously. Owns `model`.

    Each policy version gets a manager of its own: a living one keeps cached prefixes of the old weights.
    """

    def __init__(self, model: PreTrainedModel, *, max_context_tokens: int, threads: int = 1) -> None:
        del threads  # Its thread takes the process's setting.
        logging.getLogger("transformers.generation.continuous_batching").setLevel(logging.ERROR)
        self._model, self._adapter = without_router_logits(model).eval(), MergedAdapter(model)
        self._cache_tokens = cache_tokens(max_context_tokens)
        self._max_context_tokens = min(max_context_tokens, self._cache_tokens // 2)
        self._version = 0
        self._requests: dict[str, SampleRequest] = {}
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._queue: dict[str, asyncio.Future[None]] = {}
        """Requests that no pass has taken yet."""
        self._numbers = count()
        self._manager: Any = None
        self._start()

    @property
    def policy_version(self) -> int:
        """The step that produced the weights now sampling."""
        return self._version

    @property
    def max_context_tokens(self) -> int:
        """Prompt plus completion at most."""
        return self._max_context_tokens

    async def sample(self, request: SampleRequest) -> Sample:
        """One sample. Cancelling the task frees its pages. Raises SamplerError."""
        if self._manager is None:
            raise SamplerError("the engine is closed")
        if not request.prompt_ids or request.max_tokens < 1:
            raise SamplerError("a request needs a prompt and at least one token to sample")
        if len(request.prompt_ids) + request.max_tokens > self._max_context_tokens:
            raise SamplerError(f"prompt and completion exceed {self._max_context_tokens} tokens")
        if request.policy_version not in (None, self._version):
            raise SamplerError(f"policy version {request.policy_version} is not served any more")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        name = f"request-{next(self._numbers)}"
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests[name], self._answers[name], self._queue[name] = request, answer, admitted
        try:
            self._manager.register_result_handler(name, partial(_settle, answer))
            taken = self._manager.add_request(
                list(request.prompt_ids),
                request_id=name,
                max_new_tokens=request.max_tokens,
                eos_token_id=list(request.stop_token_ids),
            )
            if taken is None:
                raise SamplerError("the engine has stopped")
            with request.progress.queued():
                await asyncio.wait((admitted, answer), return_when=asyncio.FIRST_COMPLETED)
            return _sample_of(await answer, request)
        except asyncio.CancelledError:
            if self._manager is not None:
                self._manager.cancel_request(name)
            raise
        finally:
            del self._requests[name], self._answers[name]
            self._queue.pop(name, None)

    async def publish(self, version: int, adapter_dir: Path) -> None:
        """Sample from this adapter from now on."""
        await self._change_weights(version, adapter_dir)

    async def publish_base(self, version: int) -> None:
        """Sample from the base model from now on."""
        await self._change_weights(version, None)

    async def _change_weights(self, version: int, adapter_dir: Path | None) -> None:
        if self._requests:
            raise SamplerError("new weights while samples are in flight")
        await asyncio.to_thread(self._stop)
        try:
            if adapter_dir is None:
                self._adapter.restore()
            else:
                self._adapter.merge(adapter_dir)
            self._version = version
        finally:
            self._start()

    async def close(self) -> None:
        """Stop the thread; requests that still wait raise SamplerError."""
        await asyncio.to_thread(self._stop)
        # The manager fails those it knows of when it stops. It has been seen to lose one, which then waited for ever.
        for answer in list(self._answers.values()):
            answer.get_loop().call_soon_threadsafe(_fail, answer)

    def _start(self) -> None:
        manager: Any = cast(Any, self._model).init_continuous_batching(
            GenerationConfig(do_sample=True, eos_token_id=-1, max_new_tokens=self._max_context_tokens),
            ContinuousBatchingConfig(
                return_logprobs=True,
                block_size=_BLOCK_TOKENS,
                num_blocks=self._cache_tokens // _BLOCK_TOKENS,
                max_batch_tokens=_TOKENS_PER_PASS,
                max_requests_per_batch=REQUESTS_PER_PASS,
                use_async_batching=False,
                use_cuda_graph=False,
            ),
        )
        # The manager draws from one generator for all requests; ours are drawn from each request's own seed.
        with _host_memory():
            manager.batch_processor = manager._create_batch_processor()
        manager.batch_processor.model_runner._sample = self._draw
        self._manager = manager
        manager.start()

    def _stop(self) -> None:
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.stop(block=True, hard_stop=True)

    def _draw(self, scores: Tensor, output_ids: Tensor) -> None:
        """In place of the manager's own sampling: tokens, and log-probabilities disguised as integers."""
        batch = self._manager.batch_processor.inputs_and_outputs.requests_in_batch
        self._let_in([entry.state.request_id for entry in batch])
        states = [entry.state for entry in batch if entry.has_new_token]
        requests = [self._requests.get(state.request_id) for state in states]
        known = [i for i, request in enumerate(requests) if request is not None]
        held = [(requests[i], states[i]) for i in known]
        if not held:
            return
        sampled = [len(s.initial_tokens) + len(s.generated_tokens) - len(r.prompt_ids) for r, s in held if r]
        uniforms_N = uniforms([r.seed for r, _ in held if r], sampled)
        for (request, _), number in zip(held, sampled, strict=True):
            if request:
                request.progress.sampled_tokens = number + 1
        temperatures, top_ps = [r.temperature for r, _ in held if r], [r.top_p for r, _ in held if r]
        logits_N_V = scores[0][known]
        for place, (request, state) in enumerate(held):
            if request and request.constraint is not None:
                tokens = [*state.initial_tokens, *state.generated_tokens]
                forbid(logits_N_V[place], request.constraint.allowed(tokens[len(request.prompt_ids) :]))
        tokens_N, logprobs_N = draw(logits_N_V, temperatures, uniforms_N, top_ps)
        output_ids[0, known] = tokens_N.to(output_ids.dtype)
        output_ids[1, known] = logprobs_N.view(dtype=torch.int32)

    def _let_in(self, names: Sequence[str]) -> None:
        """Tell requests of the first pass that has them."""
        for name in names:
            admitted = self._queue.pop(name, None)
            if admitted is not None and not (loop := admitted.get_loop()).is_closed():
                loop.call_soon_threadsafe(_settle, admitted, None)


def _settle(answer: asyncio.Future[Any], output: Any) -> None:
    if not answer.done():
        answer.set_result(output)


@contextmanager
def _host_memory() -> Generator[None]:
    """What the cache may take is looked up here, which is where it is: by itself the manager looks at a GPU's memory,
    where the host has one."""
    looked_up = getattr(cache, _LOOK_UP)
    if torch.cuda.is_available():
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        setattr(cache, _LOOK_UP, lambda: (torch.device("cpu"), total, 0, 0))
    try:
        yield
    finally:
        setattr(cache, _LOOK_UP, looked_up)


def _fail(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(SamplerError("the engine was closed"))


def _sample_of(output: Any, request: SampleRequest) -> Sample:
    if output.error is not None:
        raise SamplerError(f"the engine failed: {output.error}")
    is_stopped = output.generated_tokens[-1] in request.stop_token_ids
    return Sample(
        token_ids=tuple(output.generated_tokens),
        logprobs=tuple(output.logprobs),
        finish_reason=FinishReason.STOP if is_stopped else FinishReason.LENGTH,
    )
