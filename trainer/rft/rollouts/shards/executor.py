"""Gives rollouts out to workers and takes in how they ended. What becomes of them is decided where it always is.

Rollouts that are asked for in one pass of the event loop go out together. Each has its public id and its policy version
from here, and is told to begin here, before any worker knows of it. What a dead worker had not handed over goes out
again under new ids, with the same seeds.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import uuid4

from rft.core.attempt import Attempt
from rft.core.dataset import DatasetRow
from rft.core.errors import RunAborted
from rft.core.events import RolloutBegan
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.loop import PendingGrade, begin
from rft.rollouts.sampler import SharedServers, release_policy
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.shards.inbox import Hints, StaleLaunch, TrainerInbox
from rft.rollouts.shards.inbox_wire import InboxNews, LostShard, SealedShard
from rft.rollouts.shards.told import ShardNotices
from rft.rollouts.shards.wire import CALL_BYTES, Settled, Shard, ShardRollout, json_bytes, shard_sizes

_LOG = logging.getLogger(__name__)
_POLL_S = 5.0
_HINT_AGAIN_S = 10.0
"""Shards that nobody has taken for so long are hinted at again: the queue may have lost its messages."""


@dataclass(slots=True, eq=False)
class _Order:
    """A rollout that somebody waits for."""

    row: DatasetRow
    key: RolloutKey
    setup: RolloutSetup
    is_grading: bool
    ended: "asyncio.Future[PendingGrade | Rollout]"
    began: RolloutBegan | None = None
    """As it is out now."""
    adapter: str | None = None


@dataclass(slots=True)
class _GivenOut:
    """A shard that is out."""

    orders: dict[str, _Order]
    """Those that have not ended, by public id."""
    hinted_s: float


@dataclass(slots=True)
class ShardedExecutor:
    """A `RolloutExecutor` for one event loop. Close it when the run is over."""

    inbox: TrainerInbox
    hints: Hints
    notices: ShardNotices
    on_attempt: Callable[[Attempt], None] = lambda attempt: None
    _wanted: list[_Order] = field(default_factory=list[_Order])
    _shards: dict[str, _GivenOut] = field(default_factory=dict[str, _GivenOut])
    _seen: tuple[int, ...] = ()
    """Positions of what was read; like `_over`, kept until the inbox has heard it."""
    _over: list[str] = field(default_factory=list[str])
    _unhinted: int = 0
    _unhinted_again: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _reader: asyncio.Task[None] | None = None
    _publisher: asyncio.Task[None] | None = None

    async def run(
        self, row: DatasetRow, key: RolloutKey, setup: RolloutSetup, *, is_grading: bool
    ) -> PendingGrade | Rollout:
        """One conversation by a worker. Raises RunAborted when the run was taken over, and what telling it raises."""
        order = _Order(row, key, setup, is_grading, asyncio.get_running_loop().create_future())
        self._want([order])
        return await order.ended

    async def aclose(self) -> None:
        """Nothing is waited for any more: workers give up what is out."""
        tasks = [task for task in (self._reader, self._publisher, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        left = (*self._over, *self._shards)
        self._shards.clear()
        if left or self._seen:
            try:
                await self.inbox.read(seen=self._seen, over=left, wait_s=0.0)
            except Exception as error:
                _LOG.warning("workers were not told that the run has ended: %s", error)

    def _want(self, orders: Sequence[_Order]) -> None:
        if not self._wanted:
            asyncio.get_running_loop().call_soon(self._cut)
        self._wanted.extend(orders)

    def _cut(self) -> None:
        """What was wanted in one pass of the loop, in shards of rollouts that can run together."""
        wanted, self._wanted = [order for order in self._wanted if not order.ended.done()], []
        for is_grading in (True, False):
            orders = iter([order for order in wanted if order.is_grading is is_grading])
            for size in shard_sizes(sum(order.is_grading is is_grading for order in wanted)):
                self._start(self._give_out(list(islice(orders, size))))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_out(self, orders: Sequence[_Order]) -> None:
        try:
            await asyncio.gather(*map(_begin, orders))
            by_adapter: dict[str | None, list[_Order]] = {}
            for order in orders:
                by_adapter.setdefault(order.adapter, []).append(order)
            for adapter, together in by_adapter.items():
                await self._give_out_shard(together, adapter)
        except StaleLaunch as stale:
            self._break_off(RunAborted(str(stale)), orders)
        except Exception as error:  # What telling the beginning raises stops the step, as it does in this process.
            self._break_off(error, orders)

    async def _give_out_shard(self, orders: Sequence[_Order], adapter: str | None) -> None:
        shard = _shard(orders, adapter)
        body = shard.model_dump_json()
        if len(shard.rows) > 1 and json_bytes(body) > CALL_BYTES:
            middle = len(orders) // 2
            await self._give_out_shard(orders[:middle], adapter)
            await self._give_out_shard(orders[middle:], adapter)
            return
        shard_id = uuid4().hex
        out = _GivenOut({_trace_id(order): order for order in orders}, _now_s())
        sealed = SealedShard(id=shard_id, body=body)
        # Known before it is out: a worker may have run it by the time that we hear that it is.
        self._shards[shard_id] = out
        for order in orders:
            order.ended.add_done_callback(lambda _, order=order: self._forget_cancelled(shard_id, order))
        self._keep_reading()
        try:
            await self.notices.platform.until_done(
                lambda: self.inbox.give_out([sealed] if shard_id in self._shards else [])
            )
        except BaseException:
            self._shards.pop(shard_id, None)
            raise
        if shard_id in self._shards:
            self._hint(1)
        else:  # It ended before we heard that it was given out: it may have been given out again since.
            self._over.append(shard_id)
            self._keep_reading()

    def _keep_reading(self) -> None:
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())

    def _hint(self, hints: int, *, is_again: bool = False) -> None:
        if is_again:
            self._unhinted_again += hints
        else:
            self._unhinted += hints
        if self._publisher is None or self._publisher.done():
            self._publisher = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        while self._unhinted or self._unhinted_again:
            is_again = not self._unhinted
            hints = self._unhinted_again if is_again else self._unhinted
            self._unhinted, self._unhinted_again = 0, 0 if is_again else self._unhinted_again
            await self.notices.broker.until_done(
                lambda hints=hints, is_again=is_again: self.hints.publish(hints, is_again=is_again)
            )

    async def _read(self) -> None:
        try:
            while self._shards or self._seen or self._over:
                over, wait_s = tuple(self._over), _POLL_S if self._shards else 0.0
                read = self._seen, over, wait_s
                news = await self.notices.platform.until_done(lambda read=read: self._ask(*read))
                del self._over[: len(over)]
                self._seen = tuple(rollout.position for rollout in news.rollouts)
                self._take_in(news)
        except Exception as error:
            left = [order for out in self._shards.values() for order in out.orders.values()]
            self._shards.clear()
            self._break_off(RunAborted(str(error)) if isinstance(error, StaleLaunch) else error, left)
        finally:
            self._reader = None

    async def _ask(self, seen: Sequence[int], over: Sequence[str], wait_s: float) -> InboxNews:
        return await self.inbox.read(seen=seen, over=over, wait_s=wait_s)

    def _take_in(self, news: InboxNews) -> None:
        for rollout in news.rollouts:
            shard_id, out = next(
                ((id_, out) for id_, out in self._shards.items() if rollout.trace_id in out.orders), (None, None)
            )
            if out is not None and shard_id is not None:
                self._settle(out.orders.pop(rollout.trace_id), rollout.body)
                self._end_if_empty(shard_id)
        for lost in news.lost:
            self._give_out_again(lost)
        self._look_at_untaken(news.untaken)

    def _settle(self, order: _Order, body: str) -> None:
        settled = Settled.model_validate_json(body)
        for attempt in settled.attempts:
            self.on_attempt(attempt)
        _release(order)
        if order.ended.done():
            return
        if settled.rollout is not None:
            order.ended.set_result(settled.rollout)
        elif settled.ungraded is not None:
            order.ended.set_result(PendingGrade.of(settled.ungraded, order.row, order.setup))

    def _give_out_again(self, lost: LostShard) -> None:
        """Customers' servers are told that what was in flight has ended; it begins anew under another id."""
        out = self._shards.pop(lost.id, None)
        if lost.id not in self._over:
            self._over.append(lost.id)
        if out is None:
            return
        for trace_id, order in out.orders.items():
            if order.setup.host is not None:
                order.setup.host.ended(trace_id=trace_id, outcome=None)
            _release(order)
        self.notices.worker_lost(lost.worker, len(out.orders))
        self._want(list(out.orders.values()))

    def _look_at_untaken(self, untaken: Sequence[str]) -> None:
        now_s = _now_s()
        waiting = [self._shards[id_] for id_ in untaken if id_ in self._shards]
        stale = [out for out in waiting if now_s - out.hinted_s >= _HINT_AGAIN_S]
        for out in stale:
            out.hinted_s = now_s
        if stale:
            self._hint(len(stale), is_again=True)
        self.notices.note_waiting(len(waiting), is_all=len(waiting) == len(self._shards))

    def _forget_cancelled(self, shard_id: str, order: _Order) -> None:
        """Nobody waits for it any more; the worker gives the shard up once nobody waits for any of it."""
        out = self._shards.get(shard_id)
        if order.ended.cancelled() and out is not None and out.orders.pop(_trace_id(order), None) is not None:
            _release(order)
            self._end_if_empty(shard_id)

    def _end_if_empty(self, shard_id: str) -> None:
        if not self._shards[shard_id].orders:
            del self._shards[shard_id]
            self._over.append(shard_id)

    def _break_off(self, error: Exception, orders: Sequence[_Order]) -> None:
        for order in orders:
            _release(order)
            if not order.ended.done():
                order.ended.set_exception(error)


async def _begin(order: _Order) -> None:
    """Draw its id, keep its policy version for it, and tell both."""
    order.began = await begin(order.key, order.setup)
    sampler = order.setup.sampler
    is_shared = isinstance(sampler, SharedServers)
    order.adapter = sampler.adapter_name(order.began.policy_version) if is_shared else None


def _trace_id(order: _Order) -> str:
    assert order.began is not None
    return order.began.trace_id


def _release(order: _Order) -> None:
    """Its policy version is not needed for it any more."""
    if order.began is not None:
        release_policy(order.setup.sampler, order.began.trace_id)


def _shard(orders: Sequence[_Order], adapter: str | None) -> Shard:
    rows = {id(order.row): order.row for order in orders}
    places = {row: place for place, row in enumerate(rows)}
    rollouts = [ShardRollout(places[id(order.row)], order.began) for order in orders if order.began is not None]
    return Shard(rows=tuple(rows.values()), rollouts=tuple(rollouts), is_grading=orders[0].is_grading, adapter=adapter)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
