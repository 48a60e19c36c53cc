"""Rows of `rollout_inboxes`, `inbox_reads`, `rollout_shards` and `inbox_rollouts`. Only the database's clock counts."""

import hmac
from collections.abc import Mapping, Sequence
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.progress import StageCounts
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.repository import JOBS
from rft.platform.rollout_inbox.run_token import RunToken, new_secret
from rft.rollouts.shards.inbox_wire import (
    SHARD_LEASE_S,
    InboxNews,
    InboxRollout,
    LostShard,
    SealedShard,
    SettledRollout,
    Taken,
)

_AT_ONCE = 256
"""Rollouts read at once at most."""
_NEWS_BYTES = 32 << 20
"""Of their bodies, where there is more than one. JSON that is put into JSON has twice as much at most."""


class NoSuchInbox(Exception):
    """The token opens nothing."""


class StaleToken(Exception):
    """The token was good: another launch followed, or the job's lease does not stand any more."""


async def open_inbox(connection: AsyncConnection[TupleRow], lease: Lease) -> RunToken:
    """An empty inbox for the launch that follows; whatever an earlier one left is void. Wants the lease to stand."""
    secret = new_secret()
    sha256 = RunToken(lease.token, 0, secret).sha256
    values = {"job_id": lease.id, "lease_token": lease.token, "sha256": sha256}
    cursor = await connection.execute(_OPEN, values)
    row = await cursor.fetchone()
    assert row is not None, "it is inserted or updated"
    await connection.execute("delete from rollout_shards where job_id = %(job_id)s", values)
    await connection.execute("delete from inbox_rollouts where job_id = %(job_id)s", values)
    return RunToken(lease.token, row[0], secret)


async def close_inbox(connection: AsyncConnection[TupleRow], job_id: str, token: RunToken) -> None:
    """The launch is over; an inbox that another one opened stays."""
    await connection.execute(
        "delete from rollout_inboxes where job_id = %s and lease_token = %s and launch = %s",
        (job_id, token.lease_token, token.launch),
    )


class InboxRepository:
    """One job's inbox inside the caller's transaction. Call `check` first: it holds other launches off."""

    def __init__(self, connection: AsyncConnection[TupleRow], job_id: str) -> None:
        self._connection, self._job_id = connection, job_id

    async def check(self, token: RunToken) -> None:
        """Raises NoSuchInbox, StaleToken."""
        cursor = await self._connection.execute(_CHECK, {"job_id": self._job_id, "standing": list(JOBS.standing)})
        row = await cursor.fetchone()
        if row is None:
            raise NoSuchInbox
        lease_token, launch, sha256, stands = row
        if (token.lease_token, token.launch) < (lease_token, launch):
            raise StaleToken
        if token.launch != launch or not hmac.compare_digest(bytes(sha256), token.sha256):
            raise NoSuchInbox
        if not stands:
            raise StaleToken

    async def announce(self, run: str) -> None:
        """What workers need to know of the run."""
        await self._connection.execute("update rollout_inboxes set run = %s where job_id = %s", (run, self._job_id))

    async def announced(self) -> str | None:
        """The same; None before the trainer has told it."""
        cursor = await self._connection.execute("select run from rollout_inboxes where job_id = %s", (self._job_id,))
        row = await cursor.fetchone()
        return None if row is None else row[0]

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        """Those that are here already stay as they are."""
        await self._connection.execute(
            "insert into rollout_shards (job_id, id, body, is_alone)"
            " select %s, * from unnest(%s::text[], %s::text[], %s::boolean[])"
            " on conflict do nothing",
            (
                self._job_id,
                [shard.id for shard in shards],
                [shard.body for shard in shards],
                [shard.is_alone for shard in shards],
            ),
        )

    async def take(self, worker: str, *, is_idle: bool) -> Taken:
        """The oldest shard that nobody has taken, under this worker's lease."""
        values = {"job_id": self._job_id, "worker": worker, "is_idle": is_idle, "ttl_s": SHARD_LEASE_S}
        cursor = await self._connection.execute(_TAKE, values)
        row = await cursor.fetchone()
        shard = None if row is None else SealedShard(id=row[0], body=row[1], is_alone=row[2])
        return Taken(shard=shard, is_one_waiting=not is_idle and await self._is_one_waiting())

    async def _is_one_waiting(self) -> bool:
        cursor = await self._connection.execute(
            "select exists (select from rollout_shards where job_id = %s and worker is null and is_alone)",
            (self._job_id,),
        )
        row = await cursor.fetchone()
        return row is not None and row[0]

    async def beat(
        self, worker: str, shards: Sequence[str], *, is_leaving: bool, stages: Mapping[str, StageCounts]
    ) -> list[str]:
        """Keep those that are this worker's, or none of them if it leaves; returns the others."""
        values = {
            "job_id": self._job_id,
            "worker": worker,
            "shards": list(shards),
            "is_leaving": is_leaving,
            "ttl_s": SHARD_LEASE_S,
            "stages": Jsonb({id_: counts.model_dump() for id_, counts in stages.items()}),
        }
        cursor = await self._connection.execute(_BEAT, values)
        held = {id_ for (id_,) in await cursor.fetchall()}
        return [id_ for id_ in shards if id_ not in held]

    async def stages(self) -> StageCounts:
        """Where the rollouts are that workers run, as those told last that were heard of."""
        cursor = await self._connection.execute(
            "select stages from rollout_shards"
            " where job_id = %s and not is_lost and lease_until >= clock_timestamp() and stages is not null",
            (self._job_id,),
        )
        return sum((StageCounts.model_validate(told) for (told,) in await cursor.fetchall()), StageCounts())

    async def deliver(self, worker: str, rollouts: Sequence[SettledRollout]) -> list[str]:
        """Take in what belongs to shards that are this worker's, each rollout once; returns the other shards."""
        shards = sorted({one.shard_id for one in rollouts})
        values = {"job_id": self._job_id, "worker": worker, "shards": shards}
        cursor = await self._connection.execute(_HELD, values)
        held = {id_ for (id_,) in await cursor.fetchall()}
        taken = [one for one in rollouts if one.shard_id in held]
        await self._connection.execute(
            "insert into inbox_rollouts (job_id, trace_id, body) select %s, * from unnest(%s::text[], %s::text[])"
            " on conflict do nothing",
            (self._job_id, [one.trace_id for one in taken], [one.body for one in taken]),
        )
        return [id_ for id_ in shards if id_ not in held]

    async def note_read(self) -> float:
        """The trainer looks into its inbox now; returns for how many seconds it had not."""
        row = await (await self._connection.execute(_NOTE_READ, {"job_id": self._job_id})).fetchone()
        return 0.0 if row is None else row[0]

    async def give_time(self, ttl_s: float) -> None:
        """Whoever has a shard, and did not leave, has at least so long to say so."""
        await self._connection.execute(
            "update rollout_shards"
            " set lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => %s))"
            " where job_id = %s and worker is not null and not is_lost and lease_until > '-infinity'",
            (ttl_s, self._job_id),
        )

    async def drop(self, *, seen: Sequence[int], over: Sequence[str]) -> None:
        """What the trainer has read, and shards of which it wants nothing more."""
        if seen:
            await self._connection.execute(
                "delete from inbox_rollouts where job_id = %s and position = any(%s)", (self._job_id, list(seen))
            )
        if over:
            await self._connection.execute(
                "delete from rollout_shards where job_id = %s and id = any(%s)", (self._job_id, list(over))
            )

    async def news(self, *, out: Sequence[str] = (), patience_s: float | None) -> InboxNews:
        """What workers handed over, and, once all of that is told, which shards are lost.

        `patience_s`: workers could say for at least so long that they live, unless the database was started since;
        None: they had no time to. `out`: shards that the trainer knows as given out.
        """
        if patience_s is not None:
            await self._connection.execute(
                "update rollout_shards set is_lost = true"
                " where job_id = %s and not is_lost and lease_until < clock_timestamp()"
                " and pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => %s)",
                (self._job_id, patience_s),
            )
        # Read after the line above: what was taken in before a shard was lost is among it.
        values = {"job_id": self._job_id, "at_once": _AT_ONCE, "most_bytes": _NEWS_BYTES}
        rows = await (await self._connection.execute(_NEWS, values)).fetchall()
        rollouts = tuple(InboxRollout(position=position, trace_id=id_, body=body) for position, id_, body, _ in rows)
        if rows and (len(rows) == _AT_ONCE or len(rows) < rows[0][3]):
            return InboxNews(rollouts=rollouts)
        cursor = await self._connection.execute(
            "select id, worker, is_lost, coalesce(lease_until = '-infinity', false) from rollout_shards"
            " where job_id = %s and (is_lost or worker is null) order by position",
            (self._job_id,),
        )
        shards = await cursor.fetchall()
        cursor = await self._connection.execute(_UNKNOWN, {"job_id": self._job_id, "out": list(out)})
        return InboxNews(
            rollouts=rollouts,
            lost=tuple(
                LostShard(id=id_, worker=worker, has_left=has_left)
                for id_, worker, is_lost, has_left in shards
                if is_lost
            ),
            untaken=tuple(id_ for id_, _, is_lost, _ in shards if not is_lost),
            unknown=tuple(id_ for (id_,) in await cursor.fetchall()),
        )


_OPEN: LiteralString = (
    "insert into rollout_inboxes (job_id, lease_token, secret_sha256) values (%(job_id)s, %(lease_token)s, %(sha256)s)"
    " on conflict (job_id) do update set lease_token = excluded.lease_token, launch = rollout_inboxes.launch + 1,"
    " secret_sha256 = excluded.secret_sha256, run = null"
    " returning launch"
)
_CHECK: LiteralString = (
    "select inbox.lease_token, inbox.launch, inbox.secret_sha256,"
    " jobs.lease_token = inbox.lease_token and jobs.lease_owner is not null and jobs.status = any(%(standing)s)"
    " from rollout_inboxes inbox join jobs on jobs.id = inbox.job_id"
    " where inbox.job_id = %(job_id)s for share of inbox"
)
_OURS: LiteralString = " where job_id = %(job_id)s and worker = %(worker)s and not is_lost and id = any(%(shards)s)"
_BEAT: LiteralString = (
    "update rollout_shards set lease_until = case when %(is_leaving)s then '-infinity'"
    " else clock_timestamp() + make_interval(secs => %(ttl_s)s) end, stages = %(stages)s -> id"
    + _OURS
    + " returning id"
)
"""The lease of a worker that leaves ends for good. Not marked as lost here: a look under way would tell so before what
the worker handed over last."""
_HELD: LiteralString = "select id from rollout_shards" + _OURS + " for share"
_NOTE_READ: LiteralString = (
    "with earlier as (select read_at from inbox_reads where job_id = %(job_id)s),"
    " noted as (insert into inbox_reads (job_id, read_at) values (%(job_id)s, clock_timestamp())"
    " on conflict (job_id) do update set read_at = excluded.read_at)"
    " select extract(epoch from clock_timestamp() - read_at)::double precision from earlier"
)
_NEWS: LiteralString = (
    "select position, trace_id, body, kept from ("
    "select position, trace_id, body, count(*) over () as kept,"
    " sum(octet_length(body)) over (order by position) as bytes, row_number() over (order by position) as place"
    " from (select position, trace_id, body from inbox_rollouts where job_id = %(job_id)s"
    " order by position limit %(at_once)s) as oldest"
    ") as counted where bytes <= %(most_bytes)s or place = 1 order by position"
)
"""The oldest that fit one answer, and how many there were to choose from."""
_UNKNOWN: LiteralString = (
    "select out.id from unnest(%(out)s::text[]) as out (id) where not exists"
    " (select from rollout_shards shard where shard.job_id = %(job_id)s and shard.id = out.id)"
)
_TAKE: LiteralString = (
    "update rollout_shards set worker = %(worker)s,"
    " lease_until = clock_timestamp() + make_interval(secs => %(ttl_s)s)"
    " where job_id = %(job_id)s and id = ("
    "select id from rollout_shards where job_id = %(job_id)s and worker is null"
    " and (not is_alone or %(is_idle)s)"
    " order by position limit 1 for update skip locked"
    ") returning id, body, is_alone"
)
