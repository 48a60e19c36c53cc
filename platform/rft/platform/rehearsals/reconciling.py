"""What the reconciler does for rehearsals: end those whose worker is gone, enqueue those that wait."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.lifecycle.lease import end_dead_leases
from rft.platform.lifecycle.records import JobError
from rft.platform.queue.messages import REHEARSE, TaskMessage
from rft.platform.rehearsals.repository import REHEARSALS, RehearsalRepository

INTERRUPTED = JobError(
    code="interrupted", message="The worker that rehearsed stopped before the end. Order the rehearsal again."
)


async def reconcile_rehearsals(
    connection: AsyncConnection[TupleRow], leases: ExpiredLeases, *, unheard_s: float
) -> list[TaskMessage]:
    """End rehearsals without a living worker; the message of the one whose turn it is, if it was not answered."""
    await end_dead_leases(connection, REHEARSALS)
    found = await leases.look(connection, REHEARSALS)
    await RehearsalRepository(connection).end_expired(INTERRUPTED, found.silent)
    return await next_in_line(connection, unheard_s=unheard_s)


async def next_in_line(connection: AsyncConnection[TupleRow], *, unheard_s: float = 0.0) -> list[TaskMessage]:
    """The message of the oldest rehearsal that waits, unless one runs."""
    waiting = await RehearsalRepository(connection).unanswered(after_s=unheard_s)
    return [TaskMessage(REHEARSE, rehearsal_id) for rehearsal_id in waiting]
