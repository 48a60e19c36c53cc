"""What can be done with files."""

import secrets
from collections.abc import AsyncIterator
from typing import Literal, Protocol

from rft.core.ids import public_id
from rft.platform.api.errors import BadRequest, NotFound, TooLarge
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.files.schemas import FileObject, UploadPurpose
from rft.platform.files.storage import FileStore
from rft.platform.store.unit_of_work import UnitOfWork

MAX_FILE_BYTES = 512 << 20
_CHUNK_BYTES = 1 << 20


class Upload(Protocol):
    """A file on its way in."""

    @property
    def filename(self) -> str | None:
        """As the customer named it."""
        ...

    async def read(self, size: int = -1) -> bytes:
        """The next bytes; empty at the end."""
        ...


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
    )


async def store_upload(
    uow: UnitOfWork, store: FileStore, upload: Upload, *, purpose: UploadPurpose, expires_after_s: int | None
) -> FileObject:
    """Keep an uploaded file. Raises BadRequest, TooLarge; then nothing is kept."""
    filename = (upload.filename or "").replace("\\", "/").rsplit("/", 1)[-1]
    if not filename or len(filename) > 255 or not filename.isprintable():
        raise BadRequest("The file needs a name of 1 to 255 printable characters.", param="file", code="invalid_value")
    if purpose == "fine-tune" and not filename.lower().endswith(".jsonl"):
        raise BadRequest(
            f"A file for fine-tuning must be JSON Lines and its name end in .jsonl; this is {filename!r}.",
            param="file",
            code="invalid_file_format",
        )
    return to_file_object(
        await keep(uow, store, _chunks(upload), filename=filename, purpose=purpose, expires_after_s=expires_after_s)
    )


async def keep(
    uow: UnitOfWork,
    store: FileStore,
    chunks: AsyncIterator[bytes],
    *,
    filename: str,
    purpose: str,
    expires_after_s: int | None = None,
) -> FileRow:
    """Store bytes and their row; also for files of our own making (results)."""
    file_id = public_id("file-", secrets.token_bytes(22), length=22)
    size = await store.put(file_id, chunks)
    try:
        if size == 0:
            raise BadRequest("The file is empty.", param="file", code="invalid_file_format")
        return await FileRepository(uow.connection).insert(
            id=file_id,
            filename=filename,
            purpose=purpose,
            bytes=size,
            storage_key=file_id,
            expires_after_s=expires_after_s,
        )
    except BaseException:
        await store.delete(file_id)
        raise


async def _chunks(upload: Upload) -> AsyncIterator[bytes]:
    size = 0
    while chunk := await upload.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise TooLarge(f"A file may have {MAX_FILE_BYTES >> 20} MB at most.", param="file", code="file_too_large")
        yield chunk


async def find(uow: UnitOfWork, file_id: str) -> FileRow:
    """The file, or NotFound."""
    row = await FileRepository(uow.connection).get(file_id)
    if row is None:
        raise NotFound(f"No such File object: {file_id}", param="id", code="not_found")
    return row


async def list_files(
    uow: UnitOfWork, *, after: str | None, limit: int, purpose: str | None, order: Literal["asc", "desc"]
) -> ListPage[FileObject]:
    """One page of files."""
    files = FileRepository(uow.connection)
    if after is not None and await files.get(after) is None:
        raise unknown_cursor(after)
    rows = await files.page(after=after, limit=limit + 1, purpose=purpose, order=order)
    return to_page([to_file_object(row) for row in rows], limit=limit)


async def delete_file(uow: UnitOfWork, store: FileStore, file_id: str) -> None:
    """Delete a file that no unfinished job needs; its bytes go after the commit."""
    row = await find(uow, file_id)
    files = FileRepository(uow.connection)
    await files.lock(file_id)
    user = await files.unfinished_job_using(file_id)
    if user is not None:
        raise BadRequest(
            f"File {file_id} is in use by {user}; cancel that job or wait for its end.", param="id", code="file_in_use"
        )
    await files.delete(file_id)
    uow.after_commit(lambda: store.delete(row.storage_key))
