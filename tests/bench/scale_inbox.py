"""What each call of a run's inbox costs the API's process and the database: measured, for `tests.bench.scale`."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from rft.core.progress import StageCounts
from rft.platform.rollout_inbox.repository import open_inbox
from rft.platform.store.database import Database
from rft.platform.store.migrations import migrate
from rft.rollouts.shards.http_inbox import HttpTrainerInbox, HttpWorkerInbox, RunAddress, open_inbox_http
from rft.rollouts.shards.inbox_wire import SealedShard, SettledRollout
from tests.bench.api_server import api, postgres
from tests.bench.process_times import spent, times_by_role
from tests.shared.given_out_run import leased_job

CALLS = 300
DELIVERED_TOGETHER = 16
ROLLOUTS = 20_000
READ_TOGETHER = 256
SMALL_BACKLOG = 1_000


@dataclass(frozen=True, slots=True)
class CallCost:
    """Processor milliseconds of one call."""

    api_ms: float
    postgres_ms: float


@dataclass(frozen=True, slots=True)
class InboxCosts:
    """By kind of call."""

    give_out: CallCost
    """A shard."""
    take: CallCost
    """Whether it finds a shard or not."""
    beat: CallCost
    deliver: CallCost
    """One rollout alone."""
    delivered: CallCost
    """Each further rollout in the same delivery."""
    read: CallCost
    """A rollout that is read and dropped, with others."""
    read_small_backlog_ms: float
    """Wall time for each rollout, where a thousand wait to be read."""
    read_large_backlog_ms: float
    """The same where twenty thousand do."""


async def inbox_costs(body_bytes: int) -> InboxCosts:
    """With rollouts of so many bytes, in a database and an API of their own."""
    async with postgres() as url:
        await migrate(url)
        async with api(url) as served, Database(url) as database, open_inbox_http() as http:
            lease = await leased_job(database)
            async with database.transaction() as connection:
                token = await open_inbox(connection, lease)
            address = RunAddress(served.url, lease.id, str(token))
            trainer, worker = HttpTrainerInbox(address, http), HttpWorkerInbox(address, http, "worker-1")
            return await _measured(trainer, worker, "x" * body_bytes)


async def _measured(trainer: HttpTrainerInbox, worker: HttpWorkerInbox, body: str) -> InboxCosts:
    shards = [SealedShard(id=uuid4().hex, body=body * 8) for _ in range(CALLS)]
    give_out = await _cost(CALLS, lambda number: trainer.give_out([shards[number]]))
    take = await _cost(CALLS, lambda number: worker.take(is_idle=True))
    busy = StageCounts(sampling=20, calling={"search": 40}, grading=4)
    held = {shard.id: busy for shard in shards[:8]}
    beat = await _cost(CALLS, lambda number: worker.beat(held))

    def rollouts(shard_id: str, count: int) -> Sequence[SettledRollout]:
        return [SettledRollout(shard_id=shard_id, trace_id=uuid4().hex, body=body) for _ in range(count)]

    async def fresh() -> str:
        """A shard that the worker has just taken."""
        await trainer.give_out([SealedShard(id=uuid4().hex, body=body)])
        taken = await worker.take(is_idle=True)
        assert taken.shard is not None, "all others are taken"
        return taken.shard.id

    shard = await fresh()
    deliver = await _cost(CALLS, lambda number: worker.deliver(rollouts(shard, 1)))
    shard = await fresh()
    together = await _cost(CALLS, lambda number: worker.deliver(rollouts(shard, DELIVERED_TOGETHER)))
    delivered = CallCost(
        (together.api_ms - deliver.api_ms) / (DELIVERED_TOGETHER - 1),
        (together.postgres_ms - deliver.postgres_ms) / (DELIVERED_TOGETHER - 1),
    )
    await _read_all(trainer)

    async def backlog(count: int) -> tuple[float, CallCost]:
        """Milliseconds, and processor time, for each of so many rollouts to be read."""
        for _ in range(0, count, READ_TOGETHER):
            gone = await worker.deliver(rollouts(await fresh(), READ_TOGETHER))
            assert not gone
        before_s, before = time.perf_counter(), times_by_role()
        read = await _read_all(trainer)
        took_s, whole = time.perf_counter() - before_s, spent(before, times_by_role())
        assert read >= count
        return took_s / read * 1e3, CallCost(whole["api"] / read * 1e3, whole["postgres"] / read * 1e3)

    small_ms = min([(await backlog(SMALL_BACKLOG))[0] for _ in range(3)])
    large_ms, read = await backlog(ROLLOUTS)
    return InboxCosts(give_out, take, beat, deliver, delivered, read, small_ms, large_ms)


async def _read_all(trainer: HttpTrainerInbox) -> int:
    """Read and drop until nothing is left; how many there were."""
    seen, count = tuple[int, ...](), 0
    while True:
        news = await trainer.read(seen=seen, over=(), wait_s=0.0)
        seen = tuple(rollout.position for rollout in news.rollouts)
        count += len(seen)
        if not seen:
            return count


async def _cost(calls: int, call: Callable[[int], Awaitable[object]]) -> CallCost:
    before = times_by_role()
    for number in range(calls):
        await call(number)
    whole = spent(before, times_by_role())
    return CallCost(whole["api"] / calls * 1e3, whole["postgres"] / calls * 1e3)
