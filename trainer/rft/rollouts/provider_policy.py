"""A model behind any OpenAI-compatible endpoint, as rollouts of messages ask it.

Calls go through the same egress as those to tools and graders. What a provider answers is a turn, a full context, or a
failure that excludes the rollout: never an empty answer that would be graded 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Literal

from rft.core.attempt import Attempt
from rft.core.chat_completion import completions_url
from rft.core.egress_settings import EgressSettings
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.spec import RetryBudget
from rft.egress.endpoint import Endpoint
from rft.egress.endpoint_client import Answer, EndpointClient
from rft.egress.limits import Limits
from rft.egress.redaction import redact_keys
from rft.egress.reply import AttemptFailure, Reply
from rft.rollouts.chat_policy import UNUSABLE_MODEL, ChatFinish, ChatRequest, ChatTurn
from rft.rollouts.provider_wire import CONTENT_FILTER, NoTurn, Refusal, advice_on, read_turn, to_wire

_MAX_BYTES = 32 << 20
"""What one call may carry each way: a long conversation is sent whole with every turn."""
_ENOUGH_REFUSALS = 3
"""So many rollouts refused before any turn was said: it is not the rows."""
_SURELY_UNUSABLE = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED})
"""Whatever was answered before: the key or what it paid for is used up."""
_NOT_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE})


@dataclass(frozen=True, slots=True)
class ProviderEndpoint:
    """How one provider is asked. `api_key` and header values are secrets."""

    name: str
    base_url: str = field(repr=False)
    """Ends where `/chat/completions` begins; its query may hold secrets."""
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout_s: float = 600.0
    """Deadline of one attempt."""
    max_concurrency: int = 8
    """Requests in flight at most."""
    requests_per_minute: float | None = None
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    omit_fields: tuple[str, ...] = ()
    """Of `provider_wire.OMITTABLE`: left to the provider."""


def open_provider_client(
    egress: EgressSettings,
    *,
    retry: RetryBudget | None = None,
    limits: Limits | None = None,
    on_attempt: Callable[[Attempt], None] | None = None,
) -> EndpointClient:
    """Connections for providers: nothing is signed, and conversations may be long. Use as an async context manager."""
    settings = egress.model_copy(update={"max_call_bytes": _MAX_BYTES, "max_reply_bytes": _MAX_BYTES})
    return EndpointClient.open(settings, retry=retry, limits=limits, on_attempt=on_attempt)


class ProviderPolicy:
    """Implements `ChatPolicy` for one model of a provider."""

    def __init__(self, client: EndpointClient, provider: ProviderEndpoint, model: str, *, owner: str = "") -> None:
        self._client, self._settings, self._model, self._owner = client, provider, model, owner
        self._endpoint = Endpoint(
            name=provider.name,
            stage=Stage.SAMPLER,
            url=completions_url(provider.base_url),
            headers=headers_of(provider),
            timeout_s=provider.timeout_s,
            max_concurrency=provider.max_concurrency,
            rate_limit=None if provider.requests_per_minute is None else provider.requests_per_minute / 60.0,
        )
        self._has_answered = False
        self._refused_rollouts: set[str] = set()

    @property
    def provider(self) -> str | None:
        """Its name."""
        return self._settings.name

    @property
    def max_concurrency(self) -> int:
        """Requests that it takes at a time."""
        return self._settings.max_concurrency

    async def complete(self, request: ChatRequest) -> ChatTurn | Failure:
        """The turn, or why there is none after all retries."""
        said = await self._ask(request, f"turn_{request.turn}")
        if isinstance(said, Failure) or said.finish_reason is not ChatFinish.CONTEXT_FULL:
            return said
        if request.sampling.max_tokens is None or "max_tokens" in self._settings.omit_fields:
            return said
        # Servers add to the conversation what may be sampled: it may only be that for which there is no room.
        whole = replace(request, sampling=replace(request.sampling, max_tokens=None))
        return await self._ask(whole, f"turn_{request.turn}.whole")

    async def _ask(self, request: ChatRequest, call_id: str) -> ChatTurn | Failure:
        reader = _Reader(self._client, request, self._endpoint.keys)
        body = to_wire(
            request,
            model=self._model,
            omitted=self._settings.omit_fields,
            max_tokens_field=self._settings.max_tokens_field,
        )
        answer = await self._client.post_json(
            self._endpoint, body, trace_id=request.trace_id, call_id=call_id, read=reader.read, owner=self._owner
        )
        if isinstance(answer, Answer):
            self._has_answered = self._has_answered or answer.value.finish_reason is not ChatFinish.CONTEXT_FULL
            return replace(answer.value, attempts=answer.attempts)
        return self._told(answer, reader, request.trace_id)

    def _told(self, failure: Failure, reader: "_Reader", trace_id: str) -> Failure:
        detail = CONTENT_FILTER if reader.is_filtered else None
        if detail is None and self._is_unusable(failure, reader.refusal, trace_id):
            detail = UNUSABLE_MODEL
        message = failure.message.replace(f"{Stage.SAMPLER} ", "Provider ", 1)
        return failure.model_copy(update={"detail": detail, "message": f"{message}{reader.advice}"})

    def _is_unusable(self, failure: Failure, refusal: Refusal | None, trace_id: str) -> bool:
        """Whether every other rollout would be answered the same."""
        if failure.code is FailureCode.BLOCKED_ADDRESS or failure.status in _SURELY_UNUSABLE:
            return True
        if refusal is not None and refusal.is_about_model:
            return True
        if failure.status in _NOT_THERE and not self._has_answered:
            return True
        if failure.code not in (FailureCode.UNAUTHORIZED, FailureCode.REJECTED) or self._has_answered:
            return False
        self._refused_rollouts.add(trace_id)
        return len(self._refused_rollouts) >= _ENOUGH_REFUSALS


def headers_of(provider: ProviderEndpoint) -> dict[str, str]:
    """What it is sent with every call, its key included."""
    key = {} if provider.api_key is None else {"Authorization": f"Bearer {provider.api_key}"}
    return {**provider.headers, **key}


@dataclass(slots=True)
class _Reader:
    """Reads the replies to one request, attempt after attempt."""

    client: EndpointClient
    request: ChatRequest
    keys: tuple[str, ...]
    """What no answer has by chance."""
    is_filtered: bool = False
    refusal: Refusal | None = None

    @property
    def advice(self) -> str:
        """What to do about a refusal, where that is known."""
        return "" if self.refusal is None else advice_on(self.refusal)

    def read(self, reply: Reply) -> ChatTurn | AttemptFailure:
        if reply.status >= HTTPStatus.BAD_REQUEST:
            return self._read_refusal(reply)
        said = read_turn(reply.body, turn=self.request.turn)
        self.is_filtered = isinstance(said, NoTurn) and said.is_filtered
        if not isinstance(said, NoTurn):
            return replace(said, content=redact_keys(said.content, self.keys))
        if self.request.on_no_turn is not None:
            self.request.on_no_turn(said.usage)
        # What a filter cut comes out the same again.
        code = FailureCode.REJECTED if said.is_filtered else FailureCode.INVALID_REPLY
        return AttemptFailure(code, said.message, status=reply.status)

    def _read_refusal(self, reply: Reply) -> ChatTurn | AttemptFailure:
        failure = self.client.http.status_failure(reply)
        assert failure is not None
        if failure.code is not FailureCode.REJECTED and failure.code is not FailureCode.UNAUTHORIZED:
            return failure
        self.refusal = Refusal.of(reply.body)
        if self.refusal.is_context_full:
            return ChatTurn("", ChatFinish.CONTEXT_FULL)
        self.is_filtered = self.refusal.is_filtered
        return failure
