"""The jobs a service knows: their gateways and secrets, in memory only, and only while somebody asks for them."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rft.core.attempt import Attempt
from rft.core.errors import RftError
from rft.egress.failed_calls import FailedCalls
from rft.gateway_service.shared_egress import JobLimits
from rft.gateway_service.wire import JobRegistration

J = TypeVar("J", bound=JobRegistration)
G = TypeVar("G")

FORGET_AFTER_S = 900.0
"""A living trainer asks about its breakers every second, and says again who it is when it was forgotten."""
TAKE_OVER_S = 20.0
"""How long a trainer that takes a job over waits for what its predecessor left to be told."""
FORGET_WAIT_S = 10.0
"""How long a trainer that is done waits for one answer while customers' servers are still told; then it asks again."""
_KEPT_ATTEMPTS = 20_000


class UnknownJob(RftError):
    """Nobody has registered this job since the service started, or it was forgotten."""


@dataclass(slots=True)
class _CallAttempts:
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    is_over: bool = False


_current: ContextVar[_CallAttempts | None] = ContextVar("attempts of the current call", default=None)


class AttemptBook:
    """Sorts a job's attempts: each goes into the reply of its own call, or into the next poll's when there is none."""

    def __init__(self) -> None:
        self._left_over: deque[Attempt] = deque(maxlen=_KEPT_ATTEMPTS)

    def note(self, attempt: Attempt) -> None:
        """An attempt ended, in whatever task of whatever call."""
        call = _current.get()
        if call is None or call.is_over:
            self._left_over.append(attempt)
        else:
            call.attempts.append(attempt)

    @contextmanager
    def one_call(self) -> Generator[Callable[[], tuple[Attempt, ...]]]:
        """Collects the attempts of the call made inside; asking for them takes them. What nobody took is left over."""
        call = _CallAttempts()
        token = _current.set(call)

        def take() -> tuple[Attempt, ...]:
            taken, call.attempts = tuple(call.attempts), []
            return taken

        try:
            yield take
        finally:
            call.is_over = True
            self._left_over.extend(call.attempts)
            _current.reset(token)

    def take_left_over(self) -> tuple[Attempt, ...]:
        """Attempts of calls that were cancelled or made in the background."""
        taken = tuple(self._left_over)
        self._left_over.clear()
        return taken


@dataclass(slots=True)
class RegisteredJob(Generic[J, G]):
    """One job as the service knows it."""

    registration: J = field(repr=False)
    gateway: G = field(repr=False)
    limits: JobLimits
    attempts: AttemptBook
    failed_calls: FailedCalls = field(default_factory=FailedCalls)
    calls_inside: int = 0
    close: Callable[[G], Awaitable[None]] | None = None
    """What its gateway is closed with once no call is inside; None while the job is registered."""
    heard_s: float = 0.0


@dataclass(slots=True)
class _Ending:
    """A job that is done, while its gateway still closes or nobody has asked how that went."""

    closing: asyncio.Task[None]
    attempts: AttemptBook
    asked_s: float


class Jobs(Generic[J, G]):
    """Registered jobs by id.

    A job whose registration changed gets a new gateway; the old one is closed when its last call has ended.
    """

    def __init__(
        self,
        open_job: Callable[[str, J], RegisteredJob[J, G]],
        close: Callable[[G], Awaitable[None]],
        stop: Callable[[G], Awaitable[None]],
        hand_over: Callable[[G, G], None],
        *,
        forget_after_s: float = FORGET_AFTER_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`close`: of a gateway whose job is over; `stop`: of one whose job goes on, at a successor or elsewhere.

        `hand_over`: from a gateway to its successor what that one must know of it.
        """
        self._open_job, self._close, self._stop, self._hand_over = open_job, close, stop, hand_over
        self._forget_after_s, self._now = forget_after_s, now
        self._by_id: OrderedDict[str, RegisteredJob[J, G]] = OrderedDict()
        """Longest unheard of first."""
        self._closing: set[asyncio.Task[None]] = set()
        """All closings that are underway."""
        self._endings: dict[str, _Ending] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def calls_inside(self) -> int:
        """Of all registered jobs together."""
        return sum(job.calls_inside for job in self._by_id.values())

    async def register(self, job_id: str, registration: J) -> None:
        """Know this job from now on. Raises ValueError for a registration that cannot be carried out."""
        if job_id in self._by_id:
            self._hear(job_id)
        self.forget_silent()
        known = self._by_id.get(job_id)
        if known is None or known.registration != registration:
            opened = self._open_job(job_id, registration)
            while (predecessor := self._by_id.pop(job_id, None)) is not None:
                await self._give_way(predecessor, opened)
            self._by_id[job_id] = opened
        self._hear(job_id)

    async def find(self, job_id: str) -> RegisteredJob[J, G]:
        """The job. Raises UnknownJob."""
        # Whoever asks is alive, however long ago it asked last: its rollouts may go on.
        job = self._hear(job_id) if job_id in self._by_id else None
        self.forget_silent()
        if job is None:
            raise UnknownJob
        return job

    async def forget(self, job_id: str, *, wait_s: float = FORGET_WAIT_S) -> tuple[tuple[Attempt, ...], bool] | None:
        """Forget the job and its secrets; calls inside are finished.

        What was tried that nobody has heard of yet, and whether all is over; ask again while it is not. None for a job
        that is not known.
        """
        job = self._by_id.pop(job_id, None)
        if job is not None:
            closing = self._close_in_background(job, self._close)
            self._endings[job_id] = _Ending(closing, job.attempts, self._now())
        ending = self._endings.get(job_id)
        if ending is None:
            return None
        ending.asked_s = self._now()
        await asyncio.wait((ending.closing,), timeout=wait_s)
        is_over = ending.closing.done()
        if is_over:
            ending.closing.result()
            if self._endings.get(job_id) is ending:
                del self._endings[job_id]
        return ending.attempts.take_left_over(), is_over

    @asynccontextmanager
    async def inside(self, job_id: str) -> AsyncGenerator[RegisteredJob[J, G]]:
        """The job, its gateway kept open until the call inside has ended. Raises UnknownJob."""
        job = await self.find(job_id)
        job.calls_inside += 1
        try:
            yield job
        finally:
            job.calls_inside -= 1
            await self._close_idle(job)

    async def aclose(self) -> None:
        """Leave all jobs: their trainers live on, and register them again where the service is next."""
        try:
            for job_id in list(self._by_id):
                self._close_in_background(self._by_id.pop(job_id), self._stop)
            await asyncio.gather(*self._closing)
        finally:
            await _cancelled(self._closing)

    async def _give_way(self, old: RegisteredJob[J, G], new: RegisteredJob[J, G]) -> None:
        """Stop the predecessor before the successor makes its first call, unless that takes too long."""
        self._hand_over(old.gateway, new.gateway)
        await asyncio.wait((self._close_in_background(old, self._stop),), timeout=TAKE_OVER_S)
        for attempt in old.attempts.take_left_over():
            new.attempts.note(attempt)

    def _close_in_background(
        self, job: RegisteredJob[J, G], close: Callable[[G], Awaitable[None]]
    ) -> asyncio.Task[None]:
        job.close = close
        closing = asyncio.create_task(self._close_idle(job))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing

    def _hear(self, job_id: str) -> RegisteredJob[J, G]:
        job = self._by_id[job_id]
        job.heard_s = self._now()
        self._by_id.move_to_end(job_id)
        return job

    def forget_silent(self) -> None:
        """Forget jobs whose trainers are gone."""
        for job_id, ending in list(self._endings.items()):
            if ending.closing.done() and self._now() - ending.asked_s > self._forget_after_s:
                del self._endings[job_id]
        while self._by_id:
            job_id, job = next(iter(self._by_id.items()))
            if self._now() - job.heard_s <= self._forget_after_s:
                return
            self._close_in_background(self._by_id.pop(job_id), self._close)

    async def _close_idle(self, job: RegisteredJob[J, G]) -> None:
        if job.close is not None and not job.calls_inside:
            await job.close(job.gateway)
            await job.limits.aclose()


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    underway = list(tasks)
    for task in underway:
        task.cancel()
    await asyncio.gather(*underway, return_exceptions=True)
