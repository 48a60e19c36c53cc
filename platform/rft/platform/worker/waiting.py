"""A queued job says why it waits: other jobs have the slots."""

from collections.abc import Sequence

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import JobStatus
from rft.platform.jobs.repository import JobRepository, SlotHolder
from rft.platform.worker.job_events import add_event


async def tell_waiting(connection: AsyncConnection[TupleRow], job_id: str, holders: Sequence[str]) -> bool:
    """Write down which jobs have the slots of a host that refused a queued job; False where that is known already.

    Other hosts may have refused it, too: the jobs that have their slots stay named for as long as they do.
    """
    jobs = JobRepository(connection)
    job = await jobs.lock(job_id)
    known = set[str]() if job is None else {holder.job for holder in job.waits_for or ()}
    if job is None or job.status is not JobStatus.QUEUED or known.issuperset(holders):
        return False
    named = sorted(known.union(holders))
    cursor = await connection.execute(
        "update jobs set waits_for = %s where id = %s returning lease_token", (named, job_id)
    )
    row, now_waits = await cursor.fetchone(), await jobs.get(job_id)
    assert row is not None, "its row is locked"
    assert now_waits is not None, "its row is locked"
    if now_waits.waits_for is None:
        return False  # Their leases ended this very moment.
    await add_event(
        connection,
        job_id,
        in_words(now_waits.waits_for),
        data={"code": "waits_for_slot", "jobs": [*named]},
        # Once per change: hosts that refuse it again and again say nothing new, until it has run.
        key=f"waits:{row[0]}:{','.join(named)}",
    )
    return True


def in_words(holders: Sequence[SlotHolder]) -> str:
    """One sentence, e.g. `Waits for the slot of job ftjob-1 (held, waits for tool 'search')`."""
    named = [f"{one.job} (held, waits for {one.hold})" if one.hold is not None else one.job for one in holders]
    if len(named) == 1:
        return f"Waits for the slot of job {named[0]}"
    return f"Waits for one of the slots of jobs {', '.join(named)}"
