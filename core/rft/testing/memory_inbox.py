"""A run's inbox in memory, for trainer and workers in one event loop: what the platform's does, without HTTP."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rft.core.progress import StageCounts
from rft.rollouts.shards.inbox import BrokerDown, InboxDown, StaleLaunch
from rft.rollouts.shards.inbox_wire import (
    SHARD_LEASE_S,
    InboxNews,
    InboxRollout,
    LostShard,
    SealedShard,
    SettledRollout,
    Taken,
)

_LOOK_S = 0.25


@dataclass(slots=True)
class _KeptShard:
    sealed: SealedShard
    worker: str | None = None
    heard_s: float = 0.0
    is_lost: bool = False
    has_left: bool = False
    stages: StageCounts = field(default_factory=StageCounts)


@dataclass(slots=True)
class MemoryInbox:
    """Implements `TrainerInbox`; `of_worker` is a worker's side of it."""

    run: str = ""
    shards: dict[str, _KeptShard] = field(default_factory=dict[str, _KeptShard])
    rollouts: dict[str, InboxRollout] = field(default_factory=dict[str, InboxRollout])
    """By public id, in the order they were handed over."""
    is_down: bool = False
    is_stale: bool = False
    """Another launch has taken the run over."""
    handed_over: list[str] = field(default_factory=list[str])
    """Public ids of all rollouts that were ever taken in."""
    _positions: int = 0
    _news_there: asyncio.Event = field(default_factory=asyncio.Event)

    async def announce(self, run: str) -> None:
        """Kept as it is."""
        self.check()
        self.run = run

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        """Those that are here already stay as they are."""
        self.check()
        for shard in shards:
            self.shards.setdefault(shard.id, _KeptShard(shard))

    async def read(
        self, *, seen: Sequence[int], over: Sequence[str], out: Sequence[str] = (), wait_s: float
    ) -> InboxNews:
        """At once when something is handed over; for what is lost it looks four times a second."""
        until_s, dropped = _now_s() + wait_s, set(seen)
        while True:
            self.check()
            self.rollouts = {id_: one for id_, one in self.rollouts.items() if one.position not in dropped}
            for shard_id in over:
                self.shards.pop(shard_id, None)
            news = self._news(out)
            if news.rollouts or news.lost or news.unknown or _now_s() >= until_s:
                return news
            self._news_there.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news_there.wait(), _LOOK_S)

    async def stages(self) -> StageCounts:
        """Of shards that workers hold."""
        self.check()
        return sum((kept.stages for kept in self.shards.values() if not kept.is_lost), StageCounts())

    def of_worker(self, worker: str) -> "MemoryWorkerInbox":
        """The side of one worker."""
        return MemoryWorkerInbox(self, worker)

    def check(self) -> None:
        """Raises InboxDown and StaleLaunch."""
        if self.is_down:
            raise InboxDown("no inbox here")
        if self.is_stale:
            raise StaleLaunch("another launch has taken the run over")

    def held(self, shard_id: str, worker: str) -> _KeptShard | None:
        """The shard, if it is this worker's."""
        kept = self.shards.get(shard_id)
        return kept if kept is not None and kept.worker == worker and not kept.is_lost else None

    def put(self, rollout: SettledRollout) -> None:
        """Once for each public id."""
        if rollout.trace_id not in self.rollouts:
            self._positions += 1
            self._news_there.set()
            self.handed_over.append(rollout.trace_id)
            self.rollouts[rollout.trace_id] = InboxRollout(
                position=self._positions, trace_id=rollout.trace_id, body=rollout.body
            )

    def _news(self, out: Sequence[str]) -> InboxNews:
        for kept in self.shards.values():
            kept.is_lost = kept.is_lost or (kept.worker is not None and _now_s() > kept.heard_s + SHARD_LEASE_S)
        lost = [
            LostShard(id=id_, worker=kept.worker or "", has_left=kept.has_left)
            for id_, kept in self.shards.items()
            if kept.is_lost
        ]
        untaken = [id_ for id_, kept in self.shards.items() if kept.worker is None]
        unknown = [id_ for id_ in out if id_ not in self.shards]
        return InboxNews(
            rollouts=tuple(self.rollouts.values()), lost=tuple(lost), untaken=tuple(untaken), unknown=tuple(unknown)
        )


@dataclass(slots=True)
class MemoryWorkerInbox:
    """Implements `WorkerInbox`."""

    inbox: MemoryInbox
    worker: str
    is_silent: bool = False
    """Its beats do not arrive."""

    async def run(self) -> str:
        """What was announced."""
        self.inbox.check()
        return self.inbox.run

    async def take(self, *, is_idle: bool) -> Taken:
        """The oldest one."""
        self.inbox.check()
        untaken = [kept for kept in self.inbox.shards.values() if kept.worker is None]
        taken = next((kept for kept in untaken if is_idle or not kept.sealed.is_alone), None)
        if taken is not None:
            taken.worker, taken.heard_s = self.worker, _now_s()
        is_one_waiting = not is_idle and any(kept.sealed.is_alone for kept in untaken)
        return Taken(shard=None if taken is None else taken.sealed, is_one_waiting=is_one_waiting)

    async def beat(self, shards: Mapping[str, StageCounts], *, is_leaving: bool = False) -> Sequence[str]:
        """A worker that leaves loses them."""
        self.inbox.check()
        if self.is_silent:
            return ()
        held = {id_: self.inbox.held(id_, self.worker) for id_ in shards}
        for id_, kept in held.items():
            if kept is not None:
                kept.heard_s, kept.is_lost, kept.stages = _now_s(), is_leaving, shards[id_]
                kept.has_left = is_leaving
        return [id_ for id_, kept in held.items() if kept is None]

    async def deliver(self, rollouts: Sequence[SettledRollout]) -> Sequence[str]:
        """What belongs to shards that it holds."""
        self.inbox.check()
        gone = [one.shard_id for one in rollouts if self.inbox.held(one.shard_id, self.worker) is None]
        for one in rollouts:
            if one.shard_id not in gone:
                self.inbox.put(one)
        return gone


@dataclass(slots=True)
class CalledWorkers:
    """Implements `Hints`: each hint is one call of the next worker, in this loop."""

    workers: Sequence[Callable[[], Coroutine[None, None, None]]]
    is_down: bool = False
    hints: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def publish(self, hints: int, *, is_again: bool = False) -> None:
        """Wake so many; each is at once in hand."""
        del is_again
        if self.is_down:
            raise BrokerDown("no broker here")
        for _ in range(hints):
            task = asyncio.create_task(self.workers[self.hints % len(self.workers)]())
            self.hints += 1
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
