"""A running job's inbox with both of its sides."""

from dataclasses import dataclass

from rft.core.progress import StageCounts
from rft.egress.client import HttpClient
from rft.platform.lifecycle.lease import Lease
from rft.platform.rollout_inbox.run_token import RunToken
from rft.platform.store.database import Database
from rft.rollouts.shards.http_inbox import HttpTrainerInbox, HttpWorkerInbox, RunAddress
from rft.rollouts.shards.inbox_wire import SealedShard, SettledRollout

SHARDS = [SealedShard(id=name, body=f'{{"rows": "{name} \\u0000 é"}}') for name in ("one", "two")]

BUSY = StageCounts(sampling=2, calling={"search": 1}, grading=1)


def settled(shard: str, *trace_ids: str) -> list[SettledRollout]:
    return [SettledRollout(shard_id=shard, trace_id=trace_id, body=f'"{trace_id}"') for trace_id in trace_ids]


@dataclass(slots=True)
class Stage:
    """A running job, its inbox, and both of its sides."""

    database: Database
    http: HttpClient
    lease: Lease
    token: RunToken
    address: RunAddress

    @property
    def trainer(self) -> HttpTrainerInbox:
        return HttpTrainerInbox(self.address, self.http)

    def worker(self, name: str) -> HttpWorkerInbox:
        return HttpWorkerInbox(self.address, self.http, name)

    async def expire(self) -> None:
        """All leases of workers are over."""
        async with self.database.transaction() as connection:
            await connection.execute("update rollout_shards set lease_until = clock_timestamp() - interval '1 s'")

    async def note_last_read(self, *, ago_s: float) -> None:
        """The trainer read so long ago for the last time."""
        async with self.database.transaction() as connection:
            await connection.execute(
                "update inbox_reads set read_at = clock_timestamp() - make_interval(secs => %s)", (ago_s,)
            )

    async def rows(self) -> tuple[int, int]:
        """Shards and rollouts that are kept."""
        async with self.database.transaction() as connection:
            cursor = await connection.execute(
                "select (select count(*) from rollout_shards), (select count(*) from inbox_rollouts)"
            )
            (row,) = await cursor.fetchall()
            return row
