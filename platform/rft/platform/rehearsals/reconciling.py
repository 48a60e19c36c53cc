"""What the reconciler does for rehearsals: end those whose worker is gone, ring for those that wait."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.platform.jobs.repository import JobError
from rft.platform.store.bell import REHEARSE, Bell
from rft.platform.worker.owner import is_surely_dead

INTERRUPTED = JobError(
    code="interrupted", message="The worker that rehearsed stopped before the end. Order the rehearsal again."
)


async def reconcile_rehearsals(connection: AsyncConnection[TupleRow], *, unheard_s: float) -> list[Bell]:
    """End rehearsals without a living worker; the bell of the one whose turn it is, if it was not heard."""
    running = await connection.execute(
        "select id, lease_owner, lease_until < clock_timestamp() from rehearsals where status = 'running'"
    )
    for rehearsal_id, owner, is_expired in await running.fetchall():
        if is_expired or is_surely_dead(owner):
            await connection.execute(
                "update rehearsals set status = case when is_cancel_requested then 'cancelled' else 'failed' end,"
                " error = case when is_cancel_requested then null else %s end,"
                " finished_at = clock_timestamp(), secrets = null, lease_owner = null, lease_until = null"
                " where id = %s and lease_owner = %s and status = 'running'",
                (Jsonb(INTERRUPTED.model_dump(mode="json")), rehearsal_id, owner),
            )
    cursor = await connection.execute(
        "update rehearsals set rung_at = clock_timestamp() where id = ("
        "select id from rehearsals where status = 'queued' order by created_at, id limit 1)"
        " and rung_at < clock_timestamp() - make_interval(secs => %s)"
        " and not exists (select 1 from rehearsals where status = 'running') returning id",
        (unheard_s,),
    )
    return [Bell(REHEARSE, str(rehearsal_id)) for (rehearsal_id,) in await cursor.fetchall()]


async def next_in_line(connection: AsyncConnection[TupleRow]) -> list[Bell]:
    """The bell of the oldest rehearsal that waits."""
    cursor = await connection.execute(
        "update rehearsals set rung_at = clock_timestamp() where id = ("
        "select id from rehearsals where status = 'queued' order by created_at, id limit 1) returning id"
    )
    return [Bell(REHEARSE, str(rehearsal_id)) for (rehearsal_id,) in await cursor.fetchall()]
