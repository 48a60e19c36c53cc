"""A queued job says why it waits: other jobs have the slots."""

from collections.abc import Sequence

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import JobStatus
from rft.platform.lifecycle.events import add_event
from rft.platform.lifecycle.records import SlotHolder
from rft.platform.lifecycle.repository import LifecycleRepository


async def tell_waiting(connection: AsyncConnection[TupleRow], job_id: str, holders: Sequence[str]) -> bool:
    """Write down which jobs have the slots of a host that refused a queued job; False where that is known already.

    Other hosts may have refused it, too: the jobs that have their slots stay named for as long as they do.
    """
    jobs = LifecycleRepository(connection)
    before = await jobs.waiting(job_id)
    if before is None or before[0] is not JobStatus.QUEUED:
        return False
    known = {holder.job for holder in before[1]}
    if known.issuperset(holders):
        return False
    named = sorted(known.union(holders))
    token, now = await jobs.wait_for(job_id, named), await jobs.waiting(job_id)
    if now is None or not now[1]:
        return False  # Their leases ended this very moment.
    await add_event(
        connection,
        job_id,
        waiting_message(now[1]),
        data={"code": "waits_for_slot", "jobs": [*named]},
        # Once per change: hosts that refuse it again and again say nothing new, until it has run.
        key=f"waits:{token}:{','.join(named)}",
    )
    return True


def waiting_message(holders: Sequence[SlotHolder]) -> str:
    """One sentence, e.g. `Waits for the slot of job ftjob-1 (held, waits for tool 'search')`."""
    named = [f"{one.job} (held, waits for {one.hold})" if one.hold is not None else one.job for one in holders]
    if len(named) == 1:
        return f"Waits for the slot of job {named[0]}"
    return f"Waits for one of the slots of jobs {', '.join(named)}"
