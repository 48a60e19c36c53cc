"""Which jobs call endpoints, or called them lately."""

from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.progress import RunProgress


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """One job that calls endpoints, or called them lately."""

    id: str
    progress: RunProgress | None
    """While a trainer has it, also where it waits for an endpoint."""


async def recently_active(
    connection: AsyncConnection[TupleRow], *, within_s: float, limit: int
) -> tuple[list[ActiveJob], int]:
    """Jobs that began and are not over, and those that ended within that time; those under way first. And how many
    there are of either, beyond the limit, too."""
    cursor = await connection.execute(_RECENT, {"within_s": within_s, "limit": limit})
    rows = await cursor.fetchall()
    jobs = [ActiveJob(id, None if now is None else RunProgress.model_validate(now)) for id, now, _ in rows]
    return jobs, rows[0][2] if rows else 0


_RECENT: LiteralString = (
    "select id, case when status = 'running' or (status = 'paused' and hold is not null) then progress end,"
    " count(*) over () from jobs where started_at is not null and (finished_at is null"
    " or finished_at > clock_timestamp() - make_interval(secs => %(within_s)s))"
    " order by finished_at desc nulls first, created_at desc, id limit %(limit)s"
)
