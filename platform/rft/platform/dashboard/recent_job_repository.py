"""Which jobs call endpoints, or called them lately."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow


async def recently_active(connection: AsyncConnection[TupleRow], *, within_s: float, limit: int) -> list[str]:
    """Ids of jobs that began and are not over, and of those that ended within that time; those under way first."""
    cursor = await connection.execute(_RECENT, {"within_s": within_s, "limit": limit})
    return [row[0] for row in await cursor.fetchall()]


_RECENT: LiteralString = (
    "select id from jobs where started_at is not null and (finished_at is null"
    " or finished_at > clock_timestamp() - make_interval(secs => %(within_s)s))"
    " order by finished_at desc nulls first, created_at desc, id limit %(limit)s"
)
