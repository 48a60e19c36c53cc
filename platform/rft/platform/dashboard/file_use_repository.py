"""Who uses a file: jobs, rehearsals, runs of evals."""

from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record

UserKind = Literal["job", "rehearsal", "eval_run"]


class FileUse(Record):
    """One that was ordered with the file."""

    kind: UserKind
    id: str
    eval_id: str | None
    """Of a run: its eval."""
    name: str | None
    purpose: Literal["training", "validation", "test", "items"]
    """What it takes the file as."""
    status: str
    created_at: datetime


async def uses_of_file(connection: AsyncConnection[TupleRow], file_id: str, *, limit: int) -> list[FileUse]:
    """Up to `limit`, newest first."""
    async with connection.cursor(row_factory=class_row(FileUse)) as cursor:
        await cursor.execute(_USES, {"id": file_id, "limit": limit})
        return await cursor.fetchall()


_USES: LiteralString = (
    "(select 'job' as kind, id, null as eval_id, suffix as name, case when training_file = %(id)s then 'training'"
    "  when validation_file = %(id)s then 'validation' else 'test' end as purpose, status, created_at"
    "  from jobs where %(id)s in (training_file, validation_file, test_file)"
    "  order by created_at desc limit %(limit)s)"
    " union all"
    " (select 'rehearsal', id, null, null, 'training', status, created_at from rehearsals where training_file = %(id)s"
    "  order by created_at desc limit %(limit)s)"
    " union all"
    " (select 'eval_run', id, eval_id, name, 'items', status, created_at from eval_runs where file_id = %(id)s"
    "  order by created_at desc limit %(limit)s)"
    " order by created_at desc, id limit %(limit)s"
)
