"""What the slot engine is asked for: samples and new weights, and how answers find their way back."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from rft.core.errors import SamplerError
from rft.engines.drafts import Own
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest


@dataclass(frozen=True, slots=True)
class NewTokens:
    """What one pass sampled for one request."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(slots=True, eq=False)
class Running:
    """One request in the batch."""

    request: SampleRequest
    answer: "asyncio.Future[Sample]"
    loop: asyncio.AbstractEventLoop
    tokens: list[int]
    """Prompt and what was sampled so far."""
    version: int = 0
    """The policy version it is sampled from."""
    slot: int = -1
    computed: int = 0
    """Leading tokens whose keys and values are in the slot."""
    draft: list[int] = field(default_factory=list[int])
    """Tokens that are computed in this pass on the chance that they are sampled."""
    own: Own = field(default_factory=dict[tuple[int, ...], int])
    logprobs: list[float] = field(default_factory=list[float])
    is_cancelled: bool = False
    queue: ExitStack = field(default_factory=ExitStack)
    """What is entered while the request waits for others to leave. Of its event loop alone."""

    def enter_queue(self) -> None:
        """From here on it only waits, until it is admitted."""
        self.queue.enter_context(self.request.progress.queued())

    @property
    def sampled(self) -> int:
        """Tokens sampled so far."""
        return len(self.tokens) - len(self.request.prompt_ids)

    def tokens_since(self, known: int) -> NewTokens:
        """What follows the first `known` tokens, all of it sampled."""
        start = known - len(self.request.prompt_ids)
        return NewTokens(tuple(self.tokens[known:]), tuple(self.logprobs[start:]))

    def take(self, drawn: Sequence[int], logprobs: Sequence[float]) -> Sample | None:
        """Add what was drawn after the tokens and after each drafted one, up to the first that was not drafted.

        The sample, where that ends it.
        """
        request, known = self.request, len(self.tokens)
        is_stopped = False
        for i, token in enumerate(drawn):
            self.tokens.append(token)
            self.logprobs.append(logprobs[i])
            is_stopped = token in request.stop_token_ids
            is_drafted = i < len(self.draft) and token == self.draft[i]
            self.computed = known + i + is_drafted
            if is_stopped or not is_drafted or self.sampled >= request.max_tokens:
                break
        self.draft = []
        if not is_stopped and self.sampled < request.max_tokens:
            return None
        reason = FinishReason.STOP if is_stopped else FinishReason.LENGTH
        return Sample(tuple(self.tokens[len(request.prompt_ids) :]), tuple(self.logprobs), reason)


@dataclass(slots=True)
class NewWeights:
    """Sample from these from now on."""

    version: int
    adapter_dir: Path | None
    """None: the base model's own."""
    done: "Future[None]"


@dataclass(frozen=True, slots=True)
class UnusedVersion:
    """Nothing is sampled from it any more."""

    version: int


class Moved(Enum):
    """Where a request is from now on."""

    TO_BATCH = "to_batch"
    TO_QUEUE = "to_queue"
    """It was preempted, and keeps what was sampled."""


News = Sample | SamplerError | NewTokens | Moved
"""What an engine has for a request."""


def deliver(results: Sequence[tuple[Running, News]]) -> None:
    """Deliver news in their order, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Running, News]]] = {}
    for running, result in results:
        by_loop.setdefault(running.loop, []).append((running, result))
    for loop, answers in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_answer, answers)


def _answer(answers: Sequence[tuple[Running, News]]) -> None:
    for running, result in answers:
        running.queue.close()
        if running.answer.done():
            continue
        match result:
            case Moved.TO_QUEUE:
                running.enter_queue()
            case Moved.TO_BATCH:
                pass
            case NewTokens():
                if running.request.progress.on_tokens is not None:
                    running.request.progress.on_tokens(result.token_ids, result.logprobs)
            case SamplerError():
                running.answer.set_exception(result)
            case Sample():
                running.answer.set_result(result)
