"""A trainer's line to a gateway service: one job's calls, and the news about its endpoints' breakers.

What goes wrong between the trainer and the service is the platform's fault, never the customer's. It is retried here, a
few times over about half a minute, which outlasts a restart; a service that does not know the job is told of it again.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeVar
from urllib.parse import quote

from rft.core.attempt import Attempt
from rft.core.base import Record
from rft.core.endpoint_load import EndpointLoad
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.spec import RetryBudget
from rft.egress.breaker import BreakerState
from rft.egress.client import HttpClient
from rft.egress.drain_pending import drain_pending
from rft.egress.endpoint import HeaderList, public_url, to_header_list
from rft.egress.failed_calls import FailedCalls
from rft.egress.guard import OPERATORS_OWN
from rft.egress.limits import BreakerChange
from rft.egress.reply import AttemptFailure, Reply
from rft.egress.retry import decide, drive
from rft.gateway_service.wire import (
    AS_OWNER,
    CAPS,
    UNKNOWN_JOB,
    Breakers,
    Forgotten,
    JobRegistration,
    ServiceReply,
    decode,
    encode,
    refusal_message,
)

_log = logging.getLogger(__name__)
R = TypeVar("R", bound=ServiceReply)

POLL_S = 1.0
CONTROL_S = 30.0
"""Deadline of everything but the calls themselves."""
QUEUE_S = 7 * 86_400.0
"""How long a call may wait in the service's queues, beyond its retry budget. The rollout's deadline, which stands still
while a job is held, or the hold's end come first; a service that hangs is noticed by its silence."""
_SILENT_LOOKS = 2
"""After so many looks in a row without an answer to anything, the service hangs: whoever waits for it is let go."""
OUR_RETRIES = RetryBudget(max_retries=9, first_wait_s=0.5, max_wait_s=10.0)
_LASTING = RetryBudget(max_retries=sys.maxsize, first_wait_s=0.5, max_wait_s=30.0)
_NOT_TOLD = AttemptFailure(
    FailureCode.SERVER_ERROR, "does not know this job: its trainer has not told it yet", surely_not_sent=True
)
_SILENT = AttemptFailure(FailureCode.TIMEOUT, "has answered nothing for a while, not even how it is")


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told what the service says beside its answers."""

    on_attempt: Callable[[Attempt], None] | None = None
    on_change: Callable[[BreakerChange], None] | None = None
    failed_calls: FailedCalls | None = None


class ServiceConnection:
    """One job's connection to one gateway service. For one event loop; close it when the job is done."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        token: str | None,
        job_id: str,
        registration: JobRegistration | None,
        listener: Listener,
        retry: RetryBudget | None = None,
        retries: RetryBudget = OUR_RETRIES,
        poll_s: float = POLL_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`registration`: None where another process has told the service of the job, and only calls are made here.

        `retry`: what the service spends on one call, as registered.
        """
        self._name, self._url = name, url.rstrip("/")
        self._job_url = f"{self._url}/v1/jobs/{quote(job_id, safe='')}"
        self._registration = None if registration is None else encode(registration)
        budget = retry or (RetryBudget() if registration is None else registration.retry)
        self._deadline_s = budget.total_s + QUEUE_S
        self._headers: HeaderList = to_header_list({} if token is None else {"Authorization": f"Bearer {token}"})
        self._http = HttpClient(OPERATORS_OWN, caps=CAPS)
        self._listener, self._retries, self._poll_s, self._sleep = listener, retries, poll_s, sleep
        self._jitter = Random()
        self._registrations = 0
        self._is_kept = False
        """A service that forgets the job is told of it again, although no call is made from here."""
        self._registering = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None
        self._silent_looks = 0
        """In a row, since the service answered anything."""
        self._silence = asyncio.Event()
        """Set for the calls under way when the service hangs; later ones have another."""
        self._not_up: dict[str, BreakerChange] = {}
        self.loads: Mapping[str, EndpointLoad] = {}
        """By endpoint key, as the service told last."""

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell the service that the job is done, and close all connections. Once hurried, it has only seconds.

        Waits until the service has told the customer's servers all it had to tell, for as long as it answers.
        """
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        if self._registrations:
            self._registrations = 0
            # The service says itself when it gives up.
            await drain_pending([asyncio.create_task(self._unregister())], hurry, quiet_s=None)
        await self._http.aclose()

    async def _unregister(self) -> None:
        await self._look()  # What went wrong last is told, too.
        is_over = False
        while (
            not is_over
        ):  # Each answer comes soon: a service that fell silent would hold the end of the job up for hours.
            reply = self._read(Forgotten, await self._send("DELETE", self._job_url, b"", CONTROL_S))
            is_over = not isinstance(reply, Forgotten) or reply.is_over

    async def keep_registered(self) -> Failure | None:
        """Tell the service of the job, and again whenever it forgets it: for calls that other processes make."""
        self._is_kept = True
        self._begin_watching()

        async def attempt() -> ServiceReply | AttemptFailure:
            return await self._register(self._registrations) or ServiceReply()

        outcome = await drive(attempt, wait_after=self._wait_after(), sleep=self._sleep)
        return self._failure(outcome) if isinstance(outcome, AttemptFailure) else None

    async def call(
        self, operation: str, request: Record, kind: type[R], *, is_safe: bool = True, is_lasting: bool = False
    ) -> R | Failure:
        """The reply, or a failure of the platform.

        `is_safe`: the endpoint bears a repeated call; `is_lasting`: a service that is away is waited for without end.
        """
        body = encode(request)
        self._begin_watching()

        async def attempt() -> R | AttemptFailure:
            return self._read(kind, await self._call_once(operation, body))

        outcome = await drive(attempt, wait_after=self._wait_after(is_safe, is_lasting), sleep=self._sleep)
        return self._failure(outcome) if isinstance(outcome, AttemptFailure) else outcome

    def _begin_watching(self) -> None:
        if self._watch is None:
            self._watch = asyncio.create_task(self._keep_watching())

    def _wait_after(
        self, is_safe: bool = True, is_lasting: bool = False
    ) -> Callable[[AttemptFailure, int], float | None]:
        not_told = 0

        def wait_after(failure: AttemptFailure, attempt: int) -> float | None:
            nonlocal not_told
            budget = _LASTING if is_lasting else self._retries
            if failure is _NOT_TOLD:  # The service is there; the job may be over.
                not_told += 1
                attempt, budget = not_told, self._retries
            is_hanging = failure.code is FailureCode.TIMEOUT and not failure.surely_not_sent
            # Once more: it may have been stopped for a moment. Whoever waits longer blames the endpoint in the end.
            if is_hanging and not is_lasting and (failure is not _SILENT or attempt > 1):
                return None
            return decide(
                failure,
                attempt=attempt,
                elapsed_s=0.0,
                budget=budget,
                jitter_draw=self._jitter.random(),
                is_safe=is_safe,
            )

        return wait_after

    async def _call_once(self, operation: str, body: bytes) -> Reply | AttemptFailure:
        if self._registration is None:
            reply = await self._post(operation, body)
            return _NOT_TOLD if _is_unknown_job(reply) else reply
        known, reply = self._registrations, None
        if known:
            reply = await self._post(operation, body)
        if reply is None or _is_unknown_job(reply):
            problem = await self._register(known)
            if problem is not None:
                return problem
            reply = await self._post(operation, body)
        return reply

    async def _post(self, operation: str, body: bytes) -> Reply | AttemptFailure:
        """One call, for as long as the service answers anybody: else its hour would be the endpoint's fault."""
        sending = asyncio.create_task(self._send("POST", f"{self._job_url}/{operation}", body, self._deadline_s))
        silence = asyncio.create_task(self._silence.wait())
        try:
            await asyncio.wait((sending, silence), return_when=asyncio.FIRST_COMPLETED)
            return sending.result() if sending.done() else _SILENT
        finally:
            sending.cancel()
            silence.cancel()
            await asyncio.gather(sending, silence, return_exceptions=True)

    async def _register(self, known: int) -> AttemptFailure | None:
        """Tell the service of the job, unless another call has done so since `known`."""
        async with self._registering:
            if self._registrations != known or self._registration is None:
                return None
            reply = self._read(ServiceReply, await self._send("PUT", self._job_url, self._registration, CONTROL_S))
            if isinstance(reply, AttemptFailure):
                return reply
            self._registrations += 1
            return None

    async def _send(self, method: str, url: str, body: bytes, timeout_s: float) -> Reply | AttemptFailure:
        reply = await self._http.ask(method, url, body, headers=self._headers, timeout_s=timeout_s)
        if isinstance(reply, Reply):
            self._silent_looks = 0
        return reply

    def _read(self, kind: type[R], reply: Reply | AttemptFailure) -> R | AttemptFailure:
        if isinstance(reply, AttemptFailure):
            return reply
        failure = self._http.status_failure(reply)
        if failure is not None:
            code, refusal = refusal_message(reply.body)
            message = f"answered {reply.status} ({code}): {refusal}" if code else failure.message
            return AttemptFailure(failure.code, message, status=reply.status, retry_after_s=failure.retry_after_s)
        try:
            read = decode(kind, reply.body)
        except ValueError:
            return AttemptFailure(FailureCode.INVALID_REPLY, "speaks another version than this trainer")
        on_attempt = self._listener.on_attempt
        if on_attempt is not None:
            for made in read.attempts:
                on_attempt(made)
        return read

    def _failure(self, last: AttemptFailure) -> Failure:
        message = f"the {self._name} service at {public_url(self._url)} {last.message}"
        return Failure(
            stage=Stage.PLATFORM, code=FailureCode.INTERNAL_ERROR, message=message, status=last.status, attempts=0
        )

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            if self._registrations or self._registration is None:
                await self._look()

    async def _look(self) -> None:
        try:
            await self._watch_once()
        except Exception:
            _log.exception("what the %s service says about its breakers could not be passed on", self._name)

    async def _watch_once(self) -> None:
        more = "" if self._registration is None else f"?{AS_OWNER}"
        reply = await self._send("GET", f"{self._job_url}/breakers{more}", b"", CONTROL_S)
        if isinstance(reply, AttemptFailure) and reply.code is FailureCode.TIMEOUT:
            self._note_silence()
        if _is_unknown_job(reply):
            # A service that was restarted knows of nothing that is down.
            self._compare({})
            self.loads = {}
            if self._is_kept:
                await self._register(self._registrations)
            return
        breakers = self._read(Breakers, reply)
        if isinstance(breakers, Breakers):
            self.loads = breakers.loads
            if self._listener.failed_calls is not None:
                for call in breakers.failed_calls:
                    self._listener.failed_calls.add(call)
            self._compare({breaker.endpoint: breaker.to_change() for breaker in breakers.open})

    def _note_silence(self) -> None:
        self._silent_looks += 1
        if self._silent_looks >= _SILENT_LOOKS:
            waited_for, self._silence, self._silent_looks = self._silence, asyncio.Event(), 0
            waited_for.set()

    def _compare(self, not_up: dict[str, BreakerChange]) -> None:
        before, self._not_up = self._not_up, not_up
        if self._listener.on_change is None:
            return
        for key in before.keys() - not_up.keys():
            self._listener.on_change(BreakerChange(key, BreakerState.CLOSED, before[key].last_failure))
        for key, change in not_up.items():
            if key not in before or before[key].state is not change.state:
                self._listener.on_change(change)


def _is_unknown_job(reply: Reply | AttemptFailure) -> bool:
    return isinstance(reply, Reply) and reply.status == 404 and refusal_message(reply.body)[0] == UNKNOWN_JOB
