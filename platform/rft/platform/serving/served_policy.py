"""Our own models as rollouts of messages ask them: the same prompts, memory of ids and turns as chat completions."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from rft.core.failure import Failure, FailureCode, Stage
from rft.platform.api.errors import ApiError, BadRequest, NotFound, Unavailable
from rft.platform.serving.order import EFFORTS
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel
from rft.platform.serving.service import events
from rft.rollouts.chat_policy import UNKEPT_FORMAT, UNUSABLE_MODEL, ChatFinish, ChatRequest, ChatTurn, ChatUsage
from rft.serving_wire.records import Choice, CompletionRequest, Event, Prompt

_LOG = logging.getLogger(__name__)

CONTEXT_EXCEEDED = "context_length_exceeded"
_WAIT_S = 600.0
"""How long a turn waits for a model that cannot answer yet: it is being loaded, or training has the memory."""
_FIRST_WAIT_S = 1.0
_DETAILS = {"model": UNUSABLE_MODEL, "response_format": UNKEPT_FORMAT}
"""Of what every row would meet, by the parameter that is bad."""


@dataclass(frozen=True, slots=True)
class ServedPolicy:
    """Implements `ChatPolicy` for a base model, a fine-tuned model or a checkpoint."""

    name: str
    """The public name."""
    model: ServedModel
    tell: Callable[[CompletionRequest], AsyncGenerator[Event]]
    """Asks the model's process. Raises ApiError."""
    max_concurrency: int = 8
    wait_s: float = _WAIT_S

    @classmethod
    def open(
        cls, name: str, model: ServedModel, processes: ServingProcesses, *, max_concurrency: int
    ) -> "ServedPolicy":
        """Over the model's process, which is started by the first turn."""
        return cls(name, model, partial(events, processes, model), max_concurrency)

    @property
    def provider(self) -> str | None:
        """It is one of ours."""
        return None

    async def complete(self, request: ChatRequest) -> ChatTurn | Failure:
        """The turn; a process that cannot answer yet is waited for, up to a bound."""
        clock = asyncio.get_running_loop().time
        asked_at, attempts, wanted = clock(), 0, self._to_wire(request)
        while True:
            attempts += 1
            try:
                return await self._turn(wanted, attempts)
            except Unavailable as busy:
                pause_s = busy.retry_after_s or _FIRST_WAIT_S
                if clock() + pause_s - asked_at > self.wait_s:
                    return _failure(FailureCode.SAMPLER_ERROR, busy.message, attempts, clock() - asked_at)
                _LOG.info("%s: %s", self.name, busy.message)
                await asyncio.sleep(pause_s)
            except ApiError as refused:
                if refused.code == CONTEXT_EXCEEDED:
                    return ChatTurn("", ChatFinish.CONTEXT_FULL, model=self.name, attempts=attempts)
                return _refused(refused, attempts, clock() - asked_at)

    def _to_wire(self, request: ChatRequest) -> CompletionRequest:
        sampling = request.sampling
        effort = sampling.reasoning_effort
        return CompletionRequest(
            token="",
            model=self.name,
            adapter=self.model.adapter,
            messages=tuple(request.messages),
            tools=tuple(request.tools),
            seed=secrets.randbits(63) if sampling.seed is None else sampling.seed % 2**63,
            temperature=1.0 if sampling.temperature is None else sampling.temperature,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            max_tokens=sampling.max_tokens,
            reasoning_effort=None if effort is None else EFFORTS.get(effort, effort),
            budgets=sampling.budgets,
            response_format=sampling.response_format,
        )

    async def _turn(self, wanted: CompletionRequest, attempts: int) -> ChatTurn:
        """Raises ApiError."""
        prompt: Prompt | None = None
        choice: Choice | None = None
        async with aclosing(self.tell(wanted)) as told:
            async for event in told:
                if isinstance(event, Prompt):
                    prompt = event
                elif isinstance(event, Choice):
                    choice = event
        if prompt is None or choice is None:
            raise ApiError("The model's process told of no answer.", code="sampler_error")
        return ChatTurn(
            content=choice.content,
            finish_reason=ChatFinish.LENGTH if choice.finish_reason == "length" else ChatFinish.STOP,
            reasoning=choice.reasoning,
            tool_calls=choice.tool_calls,
            usage=ChatUsage(
                prompt_tokens=prompt.prompt_tokens,
                cached_tokens=prompt.remembered_tokens,
                completion_tokens=choice.completion_tokens,
                reasoning_tokens=choice.reasoning_tokens,
            ),
            model=self.name,
            attempts=attempts,
        )


def _refused(refused: ApiError, attempts: int, elapsed_s: float) -> Failure:
    """A model that is gone or cannot chat is so for every row, as a format is that cannot be kept; messages that its
    template refuses are this row's."""
    match refused:
        case NotFound():
            return _failure(FailureCode.REJECTED, refused.message, attempts, elapsed_s, UNUSABLE_MODEL)
        case BadRequest():
            detail = _DETAILS.get(refused.param or "")
            return _failure(FailureCode.REJECTED, refused.message, attempts, elapsed_s, detail)
        case _:
            return _failure(FailureCode.SAMPLER_ERROR, refused.message, attempts, elapsed_s)


def _failure(code: FailureCode, message: str, attempts: int, elapsed_s: float, detail: str | None = None) -> Failure:
    return Failure(
        stage=Stage.SAMPLER, code=code, message=message, detail=detail, attempts=attempts, elapsed_s=elapsed_s
    )
