"""What the reconciler does for rehearsals: end those whose worker is gone, ring for those that wait."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.lifecycle.lease import end_dead_leases
from rft.platform.lifecycle.records import JobError
from rft.platform.rehearsals.repository import REHEARSALS, RehearsalRepository
from rft.platform.store.bell import REHEARSE, Bell

INTERRUPTED = JobError(
    code="interrupted", message="The worker that rehearsed stopped before the end. Order the rehearsal again."
)


async def reconcile_rehearsals(connection: AsyncConnection[TupleRow], *, unheard_s: float) -> list[Bell]:
    """End rehearsals without a living worker; the bell of the one whose turn it is, if it was not heard."""
    await end_dead_leases(connection, REHEARSALS)
    rehearsals = RehearsalRepository(connection)
    await rehearsals.end_expired(INTERRUPTED)
    return [Bell(REHEARSE, rehearsal_id) for rehearsal_id in await rehearsals.unanswered(after_s=unheard_s)]


async def next_in_line(connection: AsyncConnection[TupleRow]) -> list[Bell]:
    """The bell of the oldest rehearsal that waits."""
    return [Bell(REHEARSE, rehearsal_id) for rehearsal_id in await RehearsalRepository(connection).next_queued()]
