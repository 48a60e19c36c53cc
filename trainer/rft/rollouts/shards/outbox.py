"""What has ended in a worker, on its way to the inbox."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from rft.rollouts.shards.handing_over import first_delivery, settled_rollout, undeliverable
from rft.rollouts.shards.inbox import StaleLaunch, WorkerInbox
from rft.rollouts.shards.inbox_wire import SettledRollout
from rft.rollouts.shards.trying_again import Patience
from rft.rollouts.shards.wire import Settled

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Outbox:
    """One session's: all that ends while something is being handed over goes with the next delivery."""

    inbox: WorkerInbox
    patience: Patience
    ends_told: Callable[[], Awaitable[None]]
    """Waited for before each delivery: a trainer that has read its last rollout closes the run, and whatever is open
    then has been cancelled. Raises nothing."""
    drop: Callable[[str], None]
    """Told each shard of which nothing counts any more."""
    give_up: Callable[[str], None]
    """Told why, once the launch is stale."""
    refuse: Callable[[], None]
    """Called where not even a failure could be handed over."""
    _waiting: list[SettledRollout] = field(default_factory=list[SettledRollout])
    _flusher: asyncio.Task[None] | None = None

    def hand_over(self, shard_id: str, *settled: tuple[str, Settled]) -> None:
        """These rollouts of the shard have ended."""
        self._waiting += [settled_rollout(shard_id, trace_id, one) for trace_id, one in settled]
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())

    async def emptied(self) -> None:
        """Returns once all is handed over that has ended so far."""
        if self._flusher is not None:
            await asyncio.gather(self._flusher, return_exceptions=True)

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What hands over now."""
        return self._flusher

    async def _flush(self) -> None:
        try:
            while self._waiting:
                count = first_delivery(self._waiting)
                batch, self._waiting = self._waiting[:count], self._waiting[count:]
                await self.ends_told()
                await self._deliver(batch)
        except StaleLaunch as stale:
            self.give_up(str(stale))

    async def _deliver(self, batch: Sequence[SettledRollout], *, is_last_try: bool = False) -> None:
        """A delivery that is refused is cut; a single rollout's becomes its failure. Raises StaleLaunch."""
        try:
            gone = await self.patience.until_done(lambda: self.inbox.deliver(batch))
        except StaleLaunch:
            raise
        except Exception as problem:
            _LOG.exception("%d rollouts cannot be handed over", len(batch))
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._deliver(batch[:middle])
                await self._deliver(batch[middle:])
            elif not is_last_try:
                await self._deliver([undeliverable(batch[0], str(problem))], is_last_try=True)
            else:
                # Nothing can be said of it: once the shard's lease has ended, others run what is left of it.
                self.refuse()
                self.drop(batch[0].shard_id)
        else:
            for shard_id in gone:
                self.drop(shard_id)
