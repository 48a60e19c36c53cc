"""One lease for all work that one process at a time may do: an owner, an end, and a token that fences its writes.

Only the database's clock counts. Whatever runs under a lease is a row of a table with the columns `id`, `status`,
`lease_owner`, `lease_token` and `lease_until` (`LeasedTable`); the row is the truth, and its lock orders its writers.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import RftError
from rft.platform.lifecycle.owner import host_of, is_surely_dead


class LeaseLost(RftError):
    """Somebody else may do the work now: stop at once and write nothing more."""


class Cancelled(LeaseLost):
    """The work is over, and nothing more of it counts. Nobody else will do it: it may be stopped in good order."""


class RequestedAction(StrEnum):
    """What the customer asks of whoever has the lease."""

    PAUSE = "pause"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Requests:
    """What the row says to whoever has its lease."""

    action: RequestedAction | None
    endpoints_version: int
    """Work that was begun with an older one is to be begun anew."""


@dataclass(frozen=True, slots=True)
class LeasedTable:
    """A table whose rows are worked on under a lease."""

    name: LiteralString
    standing: tuple[str, ...]
    """Statuses in which the owner of a lease may write."""
    occupying: tuple[str, ...]
    """Statuses in which an unexpired lease takes up a slot."""
    requests: LiteralString = "null, 0"
    """Two SQL expressions over a row: a RequestedAction or null, and the version of its endpoints."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for one row until somebody takes a higher token."""

    table: LeasedTable = field(repr=False)
    id: str
    """Of the row."""
    token: int
    owner: str
    """See `lifecycle.owner`."""
    slot: int = 0
    """Which of its host's slots it takes up, where slots are told apart."""


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """A lease that stands and has run out; equal to another only while nobody has renewed it."""

    id: str
    token: int
    owner: str
    until: datetime


EXPIRED: LiteralString = "(lease_until is null or lease_until < clock_timestamp())"
"""Nobody has the lease, or its owner missed its heartbeats."""
GIVEN_UP: LiteralString = "(lease_until is null or (lease_until < clock_timestamp() and id = any(%(silent)s::text[])))"
"""Nobody has the lease, or its owner is among `silent`, and has not renewed it since (`lifecycle.expired_leases`)."""
TAKE: LiteralString = (
    "lease_owner = %(owner)s, lease_token = lease_token + 1,"
    " lease_until = clock_timestamp() + make_interval(secs => %(ttl_s)s)"
)
"""What sets a lease, in an `update`; return `lease_token`."""
GIVE_BACK: LiteralString = "lease_owner = null, lease_until = null"
"""What ends a lease, in an `update`. The token stays, so that the next one is higher."""
UNLOCKED: LiteralString = " for update skip locked"
"""Of the rows that are looked for: one that somebody has locked, and maybe keeps, holds up none of the others."""
_STANDS: LiteralString = "lease_token = %(token)s and lease_owner = %(owner)s and status = any(%(standing)s)"
"""The owner, too: a database that failed over and lost its last commits gives a token twice."""


async def lock_row(connection: AsyncConnection[TupleRow], lease: Lease, columns: LiteralString = "status") -> TupleRow:
    """Lock the row for this transaction if the lease still stands; returns its `columns`. Raises LeaseLost."""
    query = "select " + columns + " from " + lease.table.name + " where id = %(id)s and " + _STANDS + " for update"
    return await _stand(connection, lease, query, {})


async def renew(connection: AsyncConnection[TupleRow], lease: Lease, *, ttl_s: float) -> Requests:
    """Keep the lease for another `ttl_s`; tells what is asked of its owner by now. Raises LeaseLost."""
    query = (
        "update "
        + lease.table.name
        + " set lease_until = clock_timestamp() + make_interval(secs => %(ttl_s)s)"
        + " where id = %(id)s and "
        + _STANDS
        + " returning "
        + lease.table.requests
    )
    async with connection.transaction():
        action, endpoints_version = await _stand(connection, lease, query, {"ttl_s": ttl_s})
    return Requests(None if action is None else RequestedAction(action), endpoints_version)


async def keep_slot(connection: AsyncConnection[TupleRow], lease: Lease, *, ttl_s: float) -> None:
    """What was cancelled under this lease takes up its slot for another `ttl_s`, where its table has it so."""
    await connection.execute(
        "update "
        + lease.table.name
        + " set lease_until = clock_timestamp() + make_interval(secs => %s)"
        + " where id = %s and lease_owner = %s and status = 'cancelled' and status = any(%s)",
        (ttl_s, lease.id, lease.owner, list(lease.table.occupying)),
    )


async def occupants(
    connection: AsyncConnection[TupleRow], table: LeasedTable, *, besides: str, host: str | None = None
) -> list[str]:
    """Rows other than `besides` that take up a slot: of one host, or anywhere.

    Hold the slots' lock (`store.advisory_locks`) until what is decided upon this is written.
    """
    cursor = await connection.execute(
        "select id, lease_owner from "
        + table.name
        + " where status = any(%s) and id <> %s and lease_until > clock_timestamp()",
        (list(table.occupying), besides),
    )
    return [id_ for id_, owner in await cursor.fetchall() if host is None or host_of(owner) == host]


async def expired(connection: AsyncConnection[TupleRow], table: LeasedTable) -> list[ExpiredLease]:
    """The leases that have run out, of rows that are worked on or still take up a slot."""
    cursor = await connection.execute(
        "select id, lease_token, lease_owner, lease_until from "
        + table.name
        + " where status = any(%s) and lease_owner is not null and lease_until < clock_timestamp()",
        (list({*table.standing, *table.occupying}),),
    )
    return [ExpiredLease(*row) for row in await cursor.fetchall()]


async def end_dead_leases(connection: AsyncConnection[TupleRow], table: LeasedTable) -> list[str]:
    """End the leases of processes of this machine that are gone, which need not be waited for; returns their rows."""
    cursor = await connection.execute(
        "select id, lease_token, lease_owner from " + table.name + " where lease_until > clock_timestamp()"
    )
    ended: list[str] = []
    for id_, token, owner in await cursor.fetchall():
        if is_surely_dead(owner):
            cursor = await connection.execute(
                "update "
                + table.name
                + " set lease_until = clock_timestamp() where id in (select id from "
                + table.name
                + " where id = %s and lease_token = %s"
                + UNLOCKED
                + ")",
                (id_, token),
            )
            ended += [id_] * cursor.rowcount  # None of a row that somebody has locked.
    return ended


async def loss(connection: AsyncConnection[TupleRow], lease: Lease) -> LeaseLost:
    """Why a lease does not stand any more."""
    cursor = await connection.execute("select status from " + lease.table.name + " where id = %s", (lease.id,))
    row = await cursor.fetchone()
    if row is not None and row[0] == "cancelled":
        return Cancelled(f"{lease.id} was cancelled")
    return LeaseLost(f"the lease {lease.token} of {lease.id} is not ours any more")


async def _stand(
    connection: AsyncConnection[TupleRow], lease: Lease, query: LiteralString, values: dict[str, float]
) -> TupleRow:
    of_lease = {"id": lease.id, "token": lease.token, "owner": lease.owner, "standing": list(lease.table.standing)}
    cursor = await connection.execute(query, of_lease | values)
    row = await cursor.fetchone()
    if row is None:
        raise await loss(connection, lease)
    return row
