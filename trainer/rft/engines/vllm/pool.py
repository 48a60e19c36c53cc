"""The servers of an engine: which of them are up, and what runs on each.

A server is asked for its health again and again. One that is gone takes no requests; once it answers again it is
admitted anew, which gives it whatever it has to know, before it takes any.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from rft.core.errors import RftError, SamplerError
from rft.engines.vllm.client import ServerClient, ServerLost, ServerRefused
from rft.engines.vllm.routing import Router
from rft.rollouts.sampler import SampleProgress

_log = logging.getLogger(__name__)
T = TypeVar("T")
POLL_S = 1.0
_MISSES = 3
"""A server that was asked so often for its health and did not answer hangs."""

_SLEEP_TRIES = 2


class ServerUnfit(RftError):
    """The server works but is not one for this run: another release, another model. Waiting does not help."""


@dataclass(slots=True, eq=False)
class Server:
    """One server, and what we know of it."""

    client: ServerClient
    places: asyncio.Semaphore
    """Requests that it takes at once; the others wait here, where no rollout's deadline counts it."""
    ensure_running: Callable[[], None] | None = None
    """Starts it again where it is our own and has died. Raises ServerUnfit where that is in vain."""
    base: str = ""
    """What it calls the base model."""
    problem: str = "was not reached yet"
    """Why it was not up when it was asked last."""
    is_unfit: bool = False
    visits: int = 0
    """How often it was asked."""
    misses: int = 0
    in_flight: set["asyncio.Task[object]"] = field(default_factory=set["asyncio.Task[object]"])

    @property
    def name(self) -> str:
        """Its address."""
        return self.client.name


class ServerPool:
    """For one event loop, from `open` to `close`."""

    def __init__(
        self, servers: Sequence[Server], admit: Callable[[Server], Awaitable[None]], *, poll_s: float = POLL_S
    ) -> None:
        """`admit` makes a server ready. It raises ServerUnfit, and whatever its client raises."""
        self.servers = {server.name: server for server in servers}
        self.router = Router(tuple(self.servers))
        self._admit, self._poll_s = admit, poll_s
        self._watches: list[asyncio.Task[None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._is_asleep = self._have_slept = False
        self.is_closed = False

    @property
    def up(self) -> list[Server]:
        """The servers that take requests."""
        return [self.servers[name] for name in self.router.up]

    @property
    def problems(self) -> str:
        """Why servers are not up, in words."""
        down = [server for server in self.servers.values() if server.name not in self.router.up]
        return "; ".join(server.problem for server in down)

    @property
    def _own_down(self) -> bool:
        """Whether one that we start ourselves is not up."""
        return any(s.ensure_running is not None and s.name not in self.router.up for s in self.servers.values())

    @property
    def _is_hopeless(self) -> bool:
        return self.is_closed or any(server.is_unfit for server in self.servers.values())

    def open(self) -> None:
        """Begin to look after the servers."""
        self._watches = [asyncio.create_task(self._watch(server)) for server in self.servers.values()]

    async def close(self) -> None:
        """Give up what runs."""
        self.is_closed = True
        for server in self.servers.values():
            self.lost(server, "the engine is closed", is_hung=True)
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._announce()

    async def sleep(self, patience_s: float) -> None:
        """Let all servers give their memory up; until `wake_up`, none is started again.

        One of our own that is down is waited for: it has its memory as soon as it is started, asked or not. Raises
        ServerLost where one does not sleep for so long, ServerRefused, SamplerError.
        """
        for _ in range(_SLEEP_TRIES):
            if not await self.own_are_up(patience_s):
                break
            self._is_asleep = self._have_slept = True
            await self.at_each(lambda server: server.client.sleep())
            if not self._own_down:
                return
            self._is_asleep = False  # What has become of one that is lost is known once it is back.
        raise ServerLost(self.problems)

    async def own_are_up(self, patience_s: float) -> bool:
        """Wait until all servers that are our own are up; whether they are in time."""
        await self.until(lambda pool: not pool._own_down or pool._is_hopeless, patience_s)
        return not self._own_down

    async def wake_up(self) -> None:
        """Let them take it back, and look after them again. One that died meanwhile is lost. Raises as `sleep`."""
        await self.at_each(lambda server: server.client.wake_up())
        self._is_asleep = False

    async def at_each(self, work: Callable[[Server], Awaitable[T]]) -> dict[str, T]:
        """What it gives at each server that is up, by address; one that dies of it is lost and has no part in it.

        Raises whatever else the work raises.
        """
        servers = self.up
        done = await asyncio.gather(*(work(server) for server in servers), return_exceptions=True)
        for server, one in zip(servers, done, strict=True):
            if isinstance(one, ServerLost):
                self.lost(server, str(one), is_hung=True)
            elif isinstance(one, BaseException):
                raise one
        return {s.name: one for s, one in zip(servers, done, strict=True) if not isinstance(one, BaseException)}

    async def until(self, condition: Callable[["ServerPool"], bool], patience_s: float) -> bool:
        """Wait for it; whether it came true in time."""
        try:
            async with asyncio.timeout(patience_s):
                while not condition(self):
                    change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.append(change)
                    await change
        except TimeoutError:
            return False
        return True

    async def run(
        self, server: Server, work: Callable[[ServerClient], Awaitable[T]], progress: SampleProgress | None = None
    ) -> T:
        """Do this at the server, once it has a place. Raises ServerLost, and what the work raises."""
        async with _Place(server.places, progress):
            if server.name not in self.router.up:
                raise ServerLost(server.problem)
            task = asyncio.ensure_future(work(server.client))
            server.in_flight.add(task)
            try:
                return await task
            except asyncio.CancelledError:
                me = asyncio.current_task()
                if me is not None and me.cancelling():
                    raise
                raise ServerLost(server.problem) from None  # It was given up together with its server.
            finally:
                server.in_flight.discard(task)

    def lost(self, server: Server, problem: str, *, is_hung: bool = False) -> None:
        """It takes no more requests. What runs at one that hangs is given up; a dead one breaks it off itself."""
        if server.name in self.router.up and not self.is_closed:
            _log.warning("%s", problem)
        server.problem = problem
        self.router.lost(server.name)
        if is_hung:
            for task in list(server.in_flight):
                task.cancel()
        self._announce()

    async def _watch(self, server: Server) -> None:
        while True:
            if not self._is_asleep:  # One that is started now would take the memory that is lent to an update.
                await self._visit(server)
                server.visits += 1
                self._announce()
            await asyncio.sleep(self._poll_s)

    async def _visit(self, server: Server) -> None:
        is_up = server.name in self.router.up
        try:
            if is_up:
                await server.client.check_health()
            else:
                if server.ensure_running is not None:
                    server.ensure_running()
                if self._have_slept:  # Its answer to a call to wake up may be what was lost.
                    await server.client.wake_up()
                await self._admit(server)
                _log.info("vLLM server %s takes requests", server.name)
                self.router.restored(server.name)
                server.is_unfit = False
            server.misses = 0
        except ServerUnfit as problem:
            server.is_unfit, server.problem = True, str(problem)
        except (ServerLost, ServerRefused, SamplerError) as problem:
            server.misses += 1
            if not is_up:
                server.problem = str(problem)
            elif server.misses >= _MISSES or not server.in_flight:
                self.lost(server, str(problem), is_hung=True)
        except Exception as error:
            _log.exception("vLLM server %s could not be looked after", server.name)
            server.problem = f"{type(error).__name__}: {error}"

    def _announce(self) -> None:
        waiters, self._waiters = self._waiters, []
        for change in waiters:
            if not change.done():
                change.set_result(None)


class _Place:
    """A place at a server. The wait for it is told as time in the queue."""

    def __init__(self, places: asyncio.Semaphore, progress: SampleProgress | None) -> None:
        self._places, self._progress = places, progress

    async def __aenter__(self) -> None:
        waiting = self._progress.queued() if self._progress is not None and self._places.locked() else nullcontext()
        with waiting:
            await self._places.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._places.release()
