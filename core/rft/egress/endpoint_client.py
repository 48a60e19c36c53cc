"""One call to one endpoint as the gateways make it: limits, attempts, retries; an answer or one failure at the end."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Generic, TypeVar
from urllib.parse import quote

from pydantic import JsonValue

from rft.core.attempt import Attempt
from rft.core.egress_settings import EgressSettings
from rft.core.failure import Failure, FailureCode
from rft.core.spec import RetryBudget
from rft.egress.calls_inside import Slot
from rft.egress.client import HttpClient
from rft.egress.endpoint import Endpoint, HeaderList, public_url
from rft.egress.failed_calls import FailedCalls
from rft.egress.guard import AddressPolicy
from rft.egress.limiter import EndpointDown, Limiter
from rft.egress.limits import Limits
from rft.egress.redaction import redact
from rft.egress.reply import AttemptFailure, Reply, SizeCaps
from rft.egress.retry import decide, drive
from rft.egress.signing import Signer

T = TypeVar("T")

PROBE_TIMEOUT_S = 5.0
"""How long an endpoint that is down may take to show a sign of life."""
_LEAST_S, _LEAST_SHARE = 30.0, 0.1
"""What another attempt must have left of the budget: seconds, of a small budget a share of it."""
_GIVEN_UP = AttemptFailure(FailureCode.CANCELLED, "was not waited for any longer")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What the endpoint said, read, and what it took to get it."""

    value: T
    attempts: int
    elapsed_s: float
    """All attempts and the waits between them, without waiting in our own queue."""


class EndpointClient:
    """Calls customer endpoints for the gateways of one process and event loop. Use as an async context manager."""

    def __init__(
        self,
        http: HttpClient,
        *,
        limits: Limits,
        retry: RetryBudget | None = None,
        signer: Signer | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
        failed_calls: FailedCalls | None = None,
        idempotency_scope: str | None = None,
        jitter: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.http, self.limits, self.retry = http, limits, retry or RetryBudget()
        self.signer, self.on_attempt, self.wall_clock = signer, on_attempt, wall_clock
        self.failed_calls = failed_calls
        # Of its own: whoever seeds the process's generator, a trainer for one, makes no two clients wait in step.
        self.jitter = jitter or Random().random
        self.sleep, self.now = sleep, now
        self.idempotency_scope = idempotency_scope
        """Keeps the idempotency keys of several gradings of one rollout apart."""

    @classmethod
    def open(
        cls,
        settings: EgressSettings | None = None,
        *,
        retry: RetryBudget | None = None,
        limits: Limits | None = None,
        signer: Signer | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
        failed_calls: FailedCalls | None = None,
        idempotency_scope: str | None = None,
    ) -> "EndpointClient":
        """A client with its own connections, as a trainer process needs it. `limits`: others than `settings` say."""
        settings = settings or EgressSettings()
        http = HttpClient(AddressPolicy.of(settings), caps=SizeCaps.of(settings))
        return cls(
            http,
            limits=limits or Limits.of(settings),
            retry=retry,
            signer=signer,
            on_attempt=on_attempt,
            failed_calls=failed_calls,
            idempotency_scope=idempotency_scope,
        )

    def scoped(self, scope: str) -> "EndpointClient":
        """The same connections and limits, with idempotency keys of this scope. Close the one that it was made of."""
        scoped = copy(self)
        scoped.idempotency_scope = scope
        return scoped

    async def __aenter__(self) -> "EndpointClient":
        await self.http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections and stop probing."""
        await self.limits.aclose()
        await self.http.aclose()

    async def post_json(
        self,
        endpoint: Endpoint,
        payload: Mapping[str, JsonValue] | bytes,
        *,
        trace_id: str,
        call_id: str,
        read: Callable[[Reply], T | AttemptFailure],
        owner: str = "",
    ) -> Answer[T] | Failure:
        """POST until `read` accepts a reply or the retry budget is spent.

        `payload` is a JSON object, encoded or not; `read` judges replies of status 2xx and 4xx (but 429); `owner` is
        the job, for fairness between jobs.
        """
        body = payload if isinstance(payload, bytes) else encode_json(payload)
        call = _Call(self, endpoint, body, read, trace_id, call_id, owner)
        try:
            outcome = await drive(call.attempt, wait_after=call.wait_after, sleep=call.sleep)
        except EndpointDown as down:
            return call.gave_up(down)
        if isinstance(outcome, AttemptFailure):
            return call.failure(outcome)
        return Answer(outcome, call.attempts, call.elapsed_s)


class _Call(Generic[T]):
    """The state of one call over its attempts."""

    __slots__ = (
        "_body", "_call_id", "_client", "_endpoint", "_key", "_limiter", "_owner", "_read", "_trace_id",
        "attempts", "elapsed_s",
    )  # fmt: skip

    def __init__(
        self,
        client: EndpointClient,
        endpoint: Endpoint,
        body: bytes,
        read: Callable[[Reply], T | AttemptFailure],
        trace_id: str,
        call_id: str,
        owner: str,
    ) -> None:
        self._client, self._endpoint, self._body, self._read = client, endpoint, body, read
        self._trace_id, self._call_id, self._owner = trace_id, call_id, owner
        scope = client.idempotency_scope
        self._key = idempotency_key(trace_id, f"{call_id}.{scope}" if scope else call_id)
        # A URL that the guard refuses may not even have a host to limit.
        self._limiter: Limiter | None = (
            client.limits.limiter(endpoint) if client.http.url_problem(endpoint.url) is None else None
        )
        self.attempts = 0
        self.elapsed_s = 0.0

    async def attempt(self) -> T | AttemptFailure:
        self.attempts += 1
        if self._limiter is None:
            return await self._send(0.0)
        asked_s = self._client.now()
        is_retry = self.attempts > 1
        place = await self._limiter.enter(
            self._owner, is_retry=is_retry, probe=self._probe, caller=self._client.limits.caller
        )
        try:
            return await self._send(self._client.now() - asked_s, place)
        finally:
            self._limiter.leave(self._owner, place)

    async def _send(self, queued_s: float, slot: Slot | None = None) -> T | AttemptFailure:
        client, started_s = self._client, self._client.now()
        try:
            reply = await client.http.post(
                self._endpoint.url,
                self._body,
                headers=self._headers(),
                timeout_s=max(0.001, min(self._endpoint.timeout_s, client.retry.total_s - self.elapsed_s)),
                secrets=self._endpoint.secrets,
            )
        except asyncio.CancelledError:
            # The endpoint may have seen it, and the ledger tells all that was tried; nobody learns anything from it.
            if client.on_attempt is not None:
                client.on_attempt(self._record(_GIVEN_UP, _GIVEN_UP, client.now() - started_s, queued_s))
            raise
        latency_s = client.now() - started_s
        self.elapsed_s += latency_s
        outcome = self._read_reply(reply) if isinstance(reply, Reply) else reply
        if isinstance(outcome, AttemptFailure):
            # At once, since the breaker shows it to others, too: error pages like to repeat the key they were sent.
            outcome = replace(outcome, message=redact(outcome.message, self._endpoint.secrets))
        failure = outcome if isinstance(outcome, AttemptFailure) else None
        if self._limiter is not None:
            self._limiter.learn(failure, latency_s=latency_s, slot=slot)
        self._tell(reply, failure, latency_s=latency_s, queued_s=queued_s)
        return outcome

    def _tell(
        self, reply: Reply | AttemptFailure, failure: AttemptFailure | None, *, latency_s: float, queued_s: float
    ) -> None:
        client = self._client
        if client.on_attempt is None and client.failed_calls is None:
            return
        made = self._record(reply, failure, latency_s, queued_s)
        if client.on_attempt is not None:
            client.on_attempt(made)
        if client.failed_calls is not None:
            client.failed_calls.note(made, reply, failure, request=self._body, secrets=self._endpoint.secrets)

    def _headers(self) -> HeaderList:
        ours = [("Idempotency-Key", self._key), ("X-RFT-Attempt", str(self.attempts))]
        signer = self._client.signer
        signed = [] if signer is None else signer.headers(self._key, self._body, now_s=self._client.wall_clock())
        return [*self._endpoint.header_list, *ours, *signed]

    async def _probe(self) -> bool:
        endpoint = self._endpoint
        timeout_s = min(endpoint.timeout_s, PROBE_TIMEOUT_S)
        reply = await self._client.http.probe(endpoint.url, headers=endpoint.header_list, timeout_s=timeout_s)
        # A 500 to a GET may only mean that nobody thought of GETs here; the trial call will tell.
        return isinstance(reply, Reply) and reply.status not in (502, 503, 504)

    def _read_reply(self, reply: Reply) -> T | AttemptFailure:
        failure = self._client.http.status_failure(reply)
        # A 4xx may carry an answer all the same, which whoever reads replies decides; a 429 is about our pace alone.
        is_readable = 400 <= reply.status <= 499 and reply.status != HTTPStatus.TOO_MANY_REQUESTS
        return self._read(reply) if failure is None or is_readable else failure

    def _record(
        self, reply: Reply | AttemptFailure, failure: AttemptFailure | None, latency_s: float, queued_s: float
    ) -> Attempt:
        return Attempt(
            at=self._client.wall_clock(),
            trace_id=self._trace_id,
            stage=self._endpoint.stage,
            endpoint=self._endpoint.name,
            call_id=self._call_id,
            attempt=self.attempts,
            code=failure.code if failure else None,
            status=reply.status,
            latency_s=latency_s,
            queued_s=queued_s,
            sent_bytes=len(self._body),
            received_bytes=len(reply.body) if isinstance(reply, Reply) else reply.received_bytes,
        )

    def wait_after(self, failure: AttemptFailure, attempt: int) -> float | None:
        budget = self._client.retry
        return decide(
            failure,
            attempt=attempt,
            elapsed_s=self.elapsed_s,
            budget=budget,
            jitter_draw=self._client.jitter(),
            is_safe=self._endpoint.is_safe_to_repeat,
            least_s=min(self._endpoint.timeout_s, _LEAST_S, _LEAST_SHARE * budget.total_s),
        )

    async def sleep(self, wait_s: float) -> None:
        await self._client.sleep(wait_s)
        self.elapsed_s += wait_s

    def gave_up(self, down: EndpointDown) -> Failure:
        self.attempts -= 1  # the one that waited for the endpoint was never made
        last = down.last_failure
        return self.failure(replace(last, message=f"{last.message}; it has been down for {down.down_s:.0f} s"))

    def failure(self, last: AttemptFailure) -> Failure:
        endpoint = self._endpoint
        tries = f" (after {self.attempts} attempts)" if self.attempts > 1 else ""
        message = f"{endpoint.stage} {endpoint.name!r} at {public_url(endpoint.url)} {last.message}{tries}"
        return Failure(
            stage=endpoint.stage,
            code=last.code,
            message=redact(message, endpoint.secrets),
            endpoint=endpoint.name,
            status=last.status,
            attempts=self.attempts,
            elapsed_s=self.elapsed_s,
        )


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(payload: Mapping[str, JsonValue]) -> bytes:
    """Compact UTF-8 JSON; text that UTF-8 cannot hold (lone surrogates) is escaped."""
    try:
        return _encode(payload).encode()
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":")).encode()


_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]+")


def idempotency_key(trace_id: str, call_id: str) -> str:
    """`<trace_id>/<call_id>`, the same on every attempt of a call."""
    plain = call_id if _PLAIN_ID.fullmatch(call_id) else quote(call_id, safe="")
    return f"{trace_id}/{plain}"
