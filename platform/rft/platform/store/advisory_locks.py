"""Every advisory lock of the platform: their numbers share one space in a database, so they are drawn here alone."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import IntEnum, unique

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow


@unique
class AdvisoryLock(IntEnum):
    """What only one process does at a time. A number in use never changes: older processes must see the same lock.

    All lie beyond 32 bits, where the locks of hosts (`lock_host_slots`) are.
    """

    MIGRATION = 7_304_201_118
    """One migrator, however many processes start together."""
    RECONCILER = 7_304_201_119
    """One process looks for lost jobs."""
    SIGNING_SECRETS = 7_304_201_120
    """One change at a time, so that neither too many nor too few secrets are ever active."""
    KEY_ROTATION = 7_304_201_121
    """One rotation of the sealing key, or one would drop the key of the other."""
    API_KEYS = 7_304_201_122
    """One revocation at a time, so that two cannot each leave the other's key as the last one."""
    REHEARSALS = 7_304_201_125
    """One worker decides which rehearsal runs next."""


async def lock(connection: AsyncConnection[TupleRow], which: AdvisoryLock) -> None:
    """Wait for the lock; the caller's transaction keeps it until its end."""
    await connection.execute("select pg_advisory_xact_lock(%s)", (which.value,))


async def try_lock(connection: AsyncConnection[TupleRow], which: AdvisoryLock) -> bool:
    """The same without waiting; False while another has it."""
    cursor = await connection.execute("select pg_try_advisory_xact_lock(%s)", (which.value,))
    row = await cursor.fetchone()
    return row is not None and row[0]


@asynccontextmanager
async def locked(connection: AsyncConnection[TupleRow], which: AdvisoryLock) -> AsyncGenerator[None]:
    """Wait for the lock and keep it over several transactions."""
    await connection.execute("select pg_advisory_lock(%s)", (which.value,))
    try:
        yield
    finally:
        await connection.execute("select pg_advisory_unlock(%s)", (which.value,))


def try_lock_connection(connection: psycopg.Connection[tuple[object, ...]], which: AdvisoryLock) -> bool:
    """Keep the lock until the connection closes; False while another has it."""
    return bool(connection.execute("select pg_try_advisory_lock(%s)", (which.value,)).fetchall()[0][0])


async def lock_host_slots(connection: AsyncConnection[TupleRow], host: str) -> None:
    """One worker of a host at a time counts its free slots; until the end of the caller's transaction."""
    await connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (f"rft_slots:{host}",))
