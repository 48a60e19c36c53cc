"""Gives rollouts out to workers and takes in how they ended. What becomes of them is decided where it always is.

Rollouts that are asked for in one pass of the event loop go out together. Each has its public id and its policy version
from here, and is told to begin here, before any worker knows of it. What a dead worker had not handed over goes out
again under new ids, with the same seeds.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from rft.core.attempt import Attempt
from rft.core.dataset import DatasetRow
from rft.core.errors import RunPaused
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.loop import PendingGrade
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.shards.inbox import Hints, TrainerInbox
from rft.rollouts.shards.inbox_wire import InboxNews, LostShard, SealedShard
from rft.rollouts.shards.orders import MOST_DEAD, GivenOutShard, Order, is_apart, shard_of, together
from rft.rollouts.shards.told import ShardNotices
from rft.rollouts.shards.wire import CALL_BYTES, json_bytes

_LOG = logging.getLogger(__name__)
_POLL_S = 5.0
_HINT_AGAIN_S = 10.0
"""Shards that nobody has taken for so long are hinted at again: the queue may have lost its messages."""


@dataclass(slots=True)
class ShardedExecutor:
    """A `RolloutExecutor` for one event loop. Close it when the run is over."""

    inbox: TrainerInbox
    hints: Hints
    notices: ShardNotices
    on_attempt: Callable[[Attempt], None] = lambda attempt: None
    _wanted: list[Order] = field(default_factory=list[Order])
    _shards: dict[str, GivenOutShard] = field(default_factory=dict[str, GivenOutShard])
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
        """One conversation by a worker.

        Raises RunAborted when the run was taken over, RunPaused when the inbox refuses it, and what telling it raises.
        """
        order = Order(row, key, setup, is_grading, asyncio.get_running_loop().create_future())
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

    def _want(self, orders: Sequence[Order]) -> None:
        if not self._wanted:
            asyncio.get_running_loop().call_soon(self._cut)
        self._wanted.extend(orders)

    def _cut(self) -> None:
        """What was wanted in one pass of the loop, in shards of rollouts that can run together."""
        wanted, self._wanted = [order for order in self._wanted if not order.ended.done()], []
        for is_grading in (True, False):
            alike = [order for order in wanted if order.is_grading is is_grading]
            for orders in together(alike):
                self._start(self._give_out(orders))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_out(self, orders: Sequence[Order]) -> None:
        try:
            await asyncio.gather(*(order.begin() for order in orders))
            by_adapter: dict[str | None, list[Order]] = {}
            for order in orders:
                by_adapter.setdefault(order.adapter, []).append(order)
            for adapter, alike in by_adapter.items():
                await self._give_out_shard(alike, adapter)
        except Exception as error:  # What telling the beginning raises stops the step, as it does in this process.
            for order in orders:
                order.break_off(error)

    async def _give_out_shard(self, orders: Sequence[Order], adapter: str | None) -> None:
        shard = shard_of(orders, adapter)
        body = shard.model_dump_json()
        if len(shard.rows) > 1 and json_bytes(body) > CALL_BYTES:
            await self._give_out_in_halves(orders, adapter)
            return
        shard_id = uuid4().hex
        out = GivenOutShard({order.trace_id: order for order in orders}, _now_s())
        sealed = SealedShard(id=shard_id, body=body, is_alone=is_apart(orders))
        # Known before it is out: a worker may have run it by the time that we hear that it is.
        self._shards[shard_id] = out
        for order in orders:
            order.ended.add_done_callback(lambda _, order=order: self._forget_cancelled(shard_id, order))
        self._keep_reading()
        tries = 0

        async def give_out() -> None:
            nonlocal tries
            tries += 1
            await self.inbox.give_out([sealed] if shard_id in self._shards else [])

        try:
            await self.notices.platform.until_done(give_out)
        except RunPaused as refusal:
            await self._after_refusal(shard_id, adapter, refusal, may_be_there=tries > 1)
            return
        except BaseException:
            self._shards.pop(shard_id, None)
            raise
        out.is_there = True
        if shard_id in self._shards:
            self._hint(1)
        else:  # It ended before we heard that it was given out: it may have been given out again since.
            self._over.append(shard_id)
            self._keep_reading()

    async def _after_refusal(
        self, shard_id: str, adapter: str | None, refusal: RunPaused, *, may_be_there: bool
    ) -> None:
        """Give it out in halves: it may be too large for a proxy on the way. Raises the refusal of a single rollout.

        `may_be_there`: an earlier try may have arrived, and a worker be at it: what is left begins anew.
        """
        out = self._shards.pop(shard_id, None)
        if out is None:
            return  # What is left of it has been given out again.
        left = list(out.orders.values())
        if may_be_there:
            self._give_up(shard_id, left)
        if len(left) < 2:
            raise refusal
        if may_be_there:
            self._want(left)
        else:
            await self._give_out_in_halves(left, adapter)

    async def _give_out_in_halves(self, orders: Sequence[Order], adapter: str | None) -> None:
        middle = len(orders) // 2
        await self._give_out_shard(orders[:middle], adapter)
        await self._give_out_shard(orders[middle:], adapter)

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
            for order in left:
                order.break_off(error)
        finally:
            self._reader = None

    async def _ask(self, seen: Sequence[int], over: Sequence[str], wait_s: float) -> InboxNews:
        out = [id_ for id_, shard in self._shards.items() if shard.is_there]
        return await self.inbox.read(seen=seen, over=over, out=out, wait_s=wait_s)

    def _take_in(self, news: InboxNews) -> None:
        for rollout in news.rollouts:
            shard_id, out = next(
                ((id_, out) for id_, out in self._shards.items() if rollout.trace_id in out.orders), (None, None)
            )
            if out is not None and shard_id is not None:
                order = out.orders.pop(rollout.trace_id)
                self._end_if_empty(shard_id)
                self._settle(order, rollout.body)
        for lost in news.lost:
            self._take_back(lost)
        self._take_back_unknown(news.unknown)
        self._look_at_untaken(news.untaken)

    def _settle(self, order: Order, body: str) -> None:
        try:
            settled = order.read(body)
            for attempt in settled.attempts:
                self.on_attempt(attempt)
            order.settle(settled)
        except Exception as error:  # E.g. the ledger's, of a full disk: nobody else has this rollout any more.
            order.break_off(error)

    def _take_back(self, lost: LostShard) -> None:
        """What a worker had that lives no more is given out again, but for what may have killed one after the other."""
        orders = self._taken_back(lost.id)
        for order in orders:
            order.dead += not lost.has_left
        left = [order for order in orders if order.dead < MOST_DEAD]
        for order in orders:
            if order.dead >= MOST_DEAD:
                order.fail(f"{order.dead} rollout workers fell silent while they ran it, the last {lost.worker}.")
        self._give_up(lost.id, left)
        self._want(left)
        self.notices.worker_lost(lost.worker, len(left))

    def _take_back_unknown(self, shard_ids: Sequence[str]) -> None:
        forgotten = 0
        for shard_id in shard_ids:
            orders = self._taken_back(shard_id)
            self._give_up(shard_id, orders)
            self._want(orders)
            forgotten += len(orders)
        if forgotten:
            self.notices.forgotten(forgotten)

    def _taken_back(self, shard_id: str) -> list[Order]:
        """What was still to come of a shard."""
        out = self._shards.pop(shard_id, None)
        return [] if out is None else list(out.orders.values())

    def _give_up(self, shard_id: str, orders: Sequence[Order]) -> None:
        """Nothing more is wanted of the shard; these of it were cancelled, which customers' servers are told."""
        if shard_id not in self._over:
            self._over.append(shard_id)
            self._keep_reading()
        for order in orders:
            order.tell_end(None)
            order.release()

    def _look_at_untaken(self, untaken: Sequence[str]) -> None:
        now_s = _now_s()
        waiting = [self._shards[id_] for id_ in untaken if id_ in self._shards]
        stale = [out for out in waiting if now_s - out.hinted_s >= _HINT_AGAIN_S]
        for out in stale:
            out.hinted_s = now_s
        if stale:
            self._hint(len(stale), is_again=True)
        self.notices.note_waiting(len(waiting), is_all=len(waiting) == len(self._shards))
        if len(waiting) < len(self._shards):
            self.notices.note_running()

    def _forget_cancelled(self, shard_id: str, order: Order) -> None:
        """Nobody waits for it any more; the worker gives the shard up once nobody waits for any of it."""
        out = self._shards.get(shard_id)
        if order.ended.cancelled() and out is not None and out.orders.pop(order.trace_id, None) is not None:
            order.release()
            self._end_if_empty(shard_id)

    def _end_if_empty(self, shard_id: str) -> None:
        if not self._shards[shard_id].orders:
            del self._shards[shard_id]
            self._over.append(shard_id)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
