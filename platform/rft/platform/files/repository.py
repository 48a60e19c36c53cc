"""Rows of `files`. A file past its expiry is gone for all but the unfinished jobs, rehearsals
and runs of evals made with it."""

from datetime import datetime
from typing import Literal

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.core.dataset_report import DatasetReport
from rft.platform.store.deleted_cursors import is_deleted_cursor
from rft.platform.store.storable import storable_json, storable_text

_COLUMNS = "id, filename, purpose, bytes, status, status_details, storage_key, created_at, expires_at, report"
_ALIVE = "(expires_at is null or expires_at > now())"
_UNFINISHED_JOB = "status in ('validating_files', 'queued', 'running', 'paused')"
_UNFINISHED_REHEARSAL = "status in ('queued', 'running')"
_UNFINISHED_EVAL_RUN = "status in ('queued', 'in_progress')"
_LIST = "files"


class FileRow(Record):
    """One row."""

    id: str
    filename: str
    purpose: str
    bytes: int
    status: Literal["uploaded", "processed", "error"]
    status_details: str | None
    storage_key: str
    created_at: datetime
    expires_at: datetime | None
    report: DatasetReport | None = None
    """What the validator found; None for files that are no datasets."""


class FileRepository:
    """Reads and writes `files` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(
        self,
        *,
        id: str,
        filename: str,
        purpose: str,
        bytes: int,
        storage_key: str,
        expires_after_s: int | None = None,
        report: DatasetReport | None = None,
        status_details: str | None = None,
    ) -> FileRow:
        """A file whose bytes are stored: it is `processed` at once, bad rows fail the jobs that use them."""
        async with self._connection.cursor(row_factory=class_row(FileRow)) as cursor:
            await cursor.execute(
                "insert into files (id, filename, purpose, bytes, status, status_details, storage_key, created_at,"
                " expires_at, report)"
                " values (%(id)s, %(filename)s, %(purpose)s, %(bytes)s, 'processed', %(status_details)s,"
                " %(storage_key)s, clock_timestamp(), clock_timestamp() + make_interval(secs => %(expires_after_s)s),"
                " %(report)s)"
                " returning " + _COLUMNS,
                {
                    "id": id,
                    "filename": filename,
                    "purpose": purpose,
                    "bytes": bytes,
                    "storage_key": storage_key,
                    "expires_after_s": expires_after_s,
                    "report": None if report is None else storable_json(report.model_dump_json()),
                    "status_details": None if status_details is None else storable_text(status_details),
                },
            )
            row = await cursor.fetchone()
        assert row is not None, "insert returning gives the row"
        return row

    async def lock_expired(self, *, limit: int) -> list[FileRow]:
        """Files past their expiry that nothing unfinished needs, as far as one look tells, and nobody is removing."""
        async with self._connection.cursor(row_factory=class_row(FileRow)) as cursor:
            await cursor.execute(
                "select " + _COLUMNS + " from files where expires_at <= now()"
                " and not exists (select 1 from jobs where "
                + _UNFINISHED_JOB
                + " and files.id in (training_file, validation_file, test_file))"
                " and not exists (select 1 from rehearsals where "
                + _UNFINISHED_REHEARSAL
                + " and files.id = training_file)"
                " and not exists (select 1 from eval_runs where "
                + _UNFINISHED_EVAL_RUN
                + " and files.id = eval_runs.file_id)"
                " order by expires_at limit %s for update skip locked",
                (limit,),
            )
            return await cursor.fetchall()

    async def get(self, file_id: str) -> FileRow | None:
        """One file; it cannot be deleted before the caller's transaction ends."""
        async with self._connection.cursor(row_factory=class_row(FileRow)) as cursor:
            await cursor.execute(
                "select " + _COLUMNS + " from files where id = %s and " + _ALIVE + " for key share", (file_id,)
            )
            return await cursor.fetchone()

    async def get_kept(self, file_id: str) -> FileRow | None:
        """One file, past its expiry or not: what is unfinished keeps the files that it was made with."""
        async with self._connection.cursor(row_factory=class_row(FileRow)) as cursor:
            await cursor.execute("select " + _COLUMNS + " from files where id = %s for key share", (file_id,))
            return await cursor.fetchone()

    async def page_after(
        self, place: tuple[datetime, str], *, limit: int, purpose: str | None, order: Literal["asc", "desc"]
    ) -> list[FileRow]:
        """Up to `limit` files that come after a place in the list, whatever has become of the file that stood there."""
        query = _NEWEST_BEHIND if order == "desc" else _OLDEST_BEHIND
        async with self._connection.cursor(row_factory=class_row(FileRow)) as cursor:
            await cursor.execute(query, {"at": place[0], "id": place[1], "limit": limit, "purpose": purpose})
            return await cursor.fetchall()

    async def has_place(self, file_id: str) -> bool:
        """Whether a page can begin after this file, which may be gone by now."""
        cursor = await self._connection.execute("select 1 from files where id = %s", (file_id,))
        return await cursor.fetchone() is not None or await is_deleted_cursor(self._connection, _LIST, file_id)

    async def page(
        self, *, after: str | None, limit: int, purpose: str | None, order: Literal["asc", "desc"]
    ) -> list[FileRow]:
        """Up to `limit` files, by age."""
        query = _NEWEST_FIRST if order == "desc" else _OLDEST_FIRST
        async with self._connection.cursor(row_factory=class_row(FileRow)) as cursor:
            await cursor.execute(query, {"after": after, "limit": limit, "purpose": purpose})
            return await cursor.fetchall()

    async def delete(self, file_id: str) -> bool:
        """False when there was no such file."""
        cursor = await self._connection.execute(
            "with gone as (delete from files where id = %s returning id, created_at)"
            " insert into deleted_cursors (id, list, created_at) select id, %s, created_at from gone"
            " on conflict (id) do update set deleted_at = excluded.deleted_at",
            (file_id, _LIST),
        )
        return cursor.rowcount > 0

    async def lock(self, file_id: str) -> bool:
        """Wait for jobs that are being created with this file, and keep new ones out. False: no such file."""
        cursor = await self._connection.execute("select 1 from files where id = %s for update", (file_id,))
        return await cursor.fetchone() is not None

    async def unfinished_user(self, file_id: str) -> str | None:
        """A job, a rehearsal or a run of an eval that still needs this file."""
        cursor = await self._connection.execute(_UNFINISHED_USER, {"id": file_id})
        row = await cursor.fetchone()
        return None if row is None else str(row[0])


_UNFINISHED_USER = (
    "(select id from jobs where "
    + _UNFINISHED_JOB
    + " and %(id)s in (training_file, validation_file, test_file) limit 1)"
    " union all"
    " (select id from rehearsals where " + _UNFINISHED_REHEARSAL + " and training_file = %(id)s limit 1)"
    " union all"
    " (select id from eval_runs where " + _UNFINISHED_EVAL_RUN + " and file_id = %(id)s limit 1)"
)
_PAGE = (
    "select " + _COLUMNS + " from files where " + _ALIVE + " and (%(purpose)s::text is null or purpose = %(purpose)s)"
)
_PLACE = (
    "(select created_at, id from files where id = %(after)s"
    " union all select created_at, id from deleted_cursors where id = %(after)s)"
)
_NEWEST_FIRST = (
    _PAGE + " and (%(after)s::text is null or (created_at, id) < " + _PLACE + ")"
    " order by created_at desc, id desc limit %(limit)s"
)
_OLDEST_FIRST = (
    _PAGE + " and (%(after)s::text is null or (created_at, id) > " + _PLACE + ")"
    " order by created_at, id limit %(limit)s"
)
_NEWEST_BEHIND = _PAGE + " and (created_at, id) < (%(at)s, %(id)s) order by created_at desc, id desc limit %(limit)s"
_OLDEST_BEHIND = _PAGE + " and (created_at, id) > (%(at)s, %(id)s) order by created_at, id limit %(limit)s"
