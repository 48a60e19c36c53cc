"""What can be done with files."""

from collections.abc import AsyncIterator
from functools import partial

from rft.core.dataset_report import DatasetReport
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.files.orphaned_blob_repository import OrphanedBlobs
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.files.schemas import DatasetObject, FileObject
from rft.platform.store.file_contents import IN_DATABASE, content_of
from rft.platform.store.file_store import BytesMissing, FileStore, delete_or_leave
from rft.platform.store.unit_of_work import UnitOfWork


def to_file_object(row: FileRow) -> FileObject:
    """The row as the contract shows it."""
    return FileObject(
        id=row.id,
        bytes=row.bytes,
        created_at=int(row.created_at.timestamp()),
        expires_at=None if row.expires_at is None else int(row.expires_at.timestamp()),
        filename=row.filename,
        purpose=row.purpose,
        status=row.status,
        status_details=row.status_details,
        dataset=None if row.report is None else _to_dataset_object(row.report),
    )


def _to_dataset_object(report: DatasetReport) -> DatasetObject:
    return DatasetObject(
        rows=report.rows,
        problems=report.problems,
        first_problems=[str(problem) for problem in report.shown_problems],
        stopped_at_line=report.stopped_at_line,
        duplicates=report.duplicates,
        tools=list(report.tools),
        longest_row_tokens=report.longest_row_tokens,
    )


async def open_content(uow: UnitOfWork, store: FileStore, row: FileRow) -> AsyncIterator[bytes]:
    """The file's bytes, wherever they lie. Raises BytesMissing."""
    if row.storage_key != IN_DATABASE:
        return await store.open(row.storage_key)
    content = await content_of(uow.connection, row.id)
    if content is None:
        raise BytesMissing(f"the bytes of {row.id} are gone")
    return _whole(content)


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def find(uow: UnitOfWork, file_id: str) -> FileRow:
    """The file, or NotFound."""
    row = await FileRepository(uow.connection).get(file_id)
    if row is None:
        raise NotFound(f"No such File object: {file_id}", param="id", code="not_found")
    return row


async def delete_file(uow: UnitOfWork, store: FileStore, file_id: str) -> None:
    """Delete a file that nothing unfinished needs; its bytes go after the commit."""
    files = FileRepository(uow.connection)
    await files.lock(file_id)
    row = await find(uow, file_id)
    user = await files.unfinished_user(file_id)
    if user is not None:
        raise BadRequest(
            f"File {file_id} is in use by {user}; cancel that one or wait for its end.", param="id", code="file_in_use"
        )
    await files.delete(file_id)
    if row.storage_key != IN_DATABASE:
        await OrphanedBlobs(uow.connection).add(row.storage_key)
        uow.after_commit(partial(delete_or_leave, store, row.storage_key))
