"""What can be done with uploads."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.ids import public_id
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest, NotFound, TooLarge, Unavailable
from rft.platform.files.checking import DatasetChecks
from rft.platform.files.incoming import Incoming
from rft.platform.files.receiving import FileField, ReceivedForm, receive_form, whole_or_nothing
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.files.service import to_file_object
from rft.platform.files.uploading import MAX_FILE_BYTES, ReceivedFile, new_file_id, refuse_bad_name
from rft.platform.store.file_store import BytesMissing, FileStore, delete_or_leave
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work
from rft.platform.uploads.repository import PartRow, UploadRepository, UploadRow
from rft.platform.uploads.schemas import (
    MAX_PART_BYTES,
    MAX_PARTS,
    PartObject,
    UploadComplete,
    UploadCreate,
    UploadObject,
)

_DATA = FileField("data", "part", MAX_PART_BYTES)
_WHOLE = FileField("part_ids", "file", MAX_FILE_BYTES)


async def create_upload(uow: UnitOfWork, wanted: UploadCreate) -> UploadObject:
    """Announce a file. Raises BadRequest."""
    refuse_bad_name(wanted.filename, wanted.purpose, param="filename")
    row = await UploadRepository(uow.connection).insert(
        id=public_id("upload_", secrets.token_bytes(24)),
        filename=wanted.filename,
        purpose=wanted.purpose,
        bytes=wanted.bytes,
        expires_after_s=None if wanted.expires_after is None else wanted.expires_after.seconds,
    )
    return to_upload_object(row)


async def add_part(services: Services, upload_id: str, *, content_type: str, body: AsyncIterator[bytes]) -> PartObject:
    """Keep a part. Raises NotFound, BadRequest, TooLarge, Unavailable: nothing is kept."""
    async with services.database.transaction() as connection:
        upload = _pending(await _find(connection, upload_id), upload_id)
        room = await _room(UploadRepository(connection), upload)
    part_id = public_id("part_", secrets.token_bytes(24))
    incoming = Incoming(services.database, services.file_store, part_id, field=_DATA.name)
    async with whole_or_nothing(incoming, _DATA):
        form = await _receive_part(incoming, room, content_type=content_type, body=body)
        if form.bytes == 0:
            raise BadRequest("The part is empty.", param=_DATA.name, code="invalid_value")
        async with services.database.transaction() as connection:
            uploads = UploadRepository(connection)
            upload = _pending(await uploads.lock(upload_id), upload_id)
            if form.bytes > await _room(uploads, upload):  # Others may have come in meanwhile.
                raise _no_room()
            await incoming.keep(connection)
            part = await uploads.add_part(upload_id, id=part_id, bytes=form.bytes)
    return PartObject.model_validate({"upload_id": upload_id, **part.model_dump()})


async def complete_upload(services: Services, upload_id: str, wanted: UploadComplete) -> UploadObject:
    """Make a file of the parts. The same parts again give the same file. Raises NotFound, BadRequest, Unavailable."""
    async with services.database.transaction() as connection:
        uploads = UploadRepository(connection)
        upload = await _find(connection, upload_id)
        if _is_done(upload, wanted):
            return await _with_file(connection, upload)
        parts = _in_order(_pending(upload, upload_id), await uploads.parts(upload_id), wanted.part_ids)
    try:
        return await _make_file(services, upload, parts, wanted)
    except _DoneMeanwhile as done:
        async with services.database.transaction() as connection:
            return await _with_file(connection, done.upload)
    except BytesMissing as error:
        # It was cancelled or has expired meanwhile, and its parts with it. If not, a part is lost.
        async with services.database.transaction() as connection:
            _pending(await _find(connection, upload_id), upload_id)
        raise Unavailable("A part of the upload is lost; upload the file again.", code="storage_unavailable") from error


async def cancel_upload(uow: UnitOfWork, store: FileStore, upload_id: str) -> UploadObject:
    """Give it up; its parts go after the commit. Again changes nothing. Raises NotFound, BadRequest."""
    uploads = UploadRepository(uow.connection)
    upload = await uploads.lock(upload_id)
    if upload is not None and upload.status == "cancelled":
        return to_upload_object(upload)
    _pending(upload, upload_id)
    _delete_after_commit(uow, store, await uploads.cancel(upload_id))
    return to_upload_object(await _find(uow.connection, upload_id))


def to_upload_object(row: UploadRow, file: FileRow | None = None) -> UploadObject:
    """The row as the contract shows it."""
    shown = UploadObject.model_validate(row, from_attributes=True)
    return shown if file is None else shown.model_copy(update={"file": to_file_object(file)})


def _take_any_name(_filename: str, _fields: Mapping[str, str]) -> None:
    """A part's name means nothing."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class _DoneMeanwhile(Exception):
    """Another request with the same parts completed the upload meanwhile."""

    def __init__(self, upload: UploadRow) -> None:
        super().__init__(upload.id)
        self.upload = upload


async def _make_file(
    services: Services, upload: UploadRow, parts: Sequence[PartRow], wanted: UploadComplete
) -> UploadObject:
    """The file, whole or not at all. Raises BadRequest, Unavailable, BytesMissing, _DoneMeanwhile."""
    store, file_id = services.file_store, new_file_id()
    incoming = Incoming(services.database, store, file_id)
    async with whole_or_nothing(incoming, _WHOLE):
        await incoming.begin()
        digest = hashlib.md5(usedforsecurity=False)
        is_digest_wanted = wanted.md5 is not None
        await incoming.store_bytes(incoming.watched(_joined(store, parts, digest if is_digest_wanted else None)))
        if wanted.md5 is not None and digest.hexdigest() != wanted.md5.lower():
            message = f"The parts make a file whose MD5 is {digest.hexdigest()}, not the one that was announced."
            raise BadRequest(message, param="md5", code="wrong_checksum")
        file = ReceivedFile(file_id, upload.filename, upload.purpose, upload.bytes, upload.expires_after_s)
        report = await file.read(store, DatasetChecks(services.dataset_slots))
        async with unit_of_work(services.database, services.enqueuer) as uow:
            uploads = UploadRepository(uow.connection)
            now = await uploads.lock(upload.id)
            if now is not None and _is_done(now, wanted):
                raise _DoneMeanwhile(now)
            _pending(now, upload.id)
            kept = await file.keep(uow.connection, incoming, report)
            keys = await uploads.complete(upload.id, part_ids=wanted.part_ids, file_id=file_id)
            _delete_after_commit(uow, store, keys)
            return to_upload_object(await _find(uow.connection, upload.id), kept)


def _delete_after_commit(uow: UnitOfWork, store: FileStore, storage_keys: Sequence[str]) -> None:
    """At once, so that a large file does not take its place twice for long. What is left is swept."""
    for key in storage_keys:
        uow.after_commit(partial(delete_or_leave, store, key))


async def _joined(store: FileStore, parts: Sequence[PartRow], digest: _Digest | None) -> AsyncIterator[bytes]:
    """The bytes of all parts; raises BytesMissing."""
    for part in parts:
        async for chunk in await store.open(part.id):
            if digest is not None:
                await asyncio.to_thread(digest.update, chunk)
            yield chunk


def _in_order(upload: UploadRow, parts: Mapping[str, PartRow], part_ids: Sequence[str]) -> list[PartRow]:
    """The parts of the file. Raises BadRequest where they do not make up what was announced."""
    for index, part_id in enumerate(part_ids):
        if part_id not in parts:
            message = f"The upload has no part '{part_id}'."
            raise BadRequest(message, param=f"part_ids[{index}]", code="part_not_found")
        if part_id in part_ids[:index]:
            raise BadRequest(f"The part '{part_id}' is named twice.", param=f"part_ids[{index}]", code="invalid_value")
    ordered = [parts[part_id] for part_id in part_ids]
    size = sum(part.bytes for part in ordered)
    if size != upload.bytes:
        message = f"The parts hold {size} bytes; the upload was created for {upload.bytes}."
        raise BadRequest(message, param="part_ids", code="wrong_size")
    return ordered


def _is_done(upload: UploadRow, wanted: UploadComplete) -> bool:
    return upload.status == "completed" and upload.part_ids == tuple(wanted.part_ids)


async def _receive_part(
    incoming: Incoming, room: int, *, content_type: str, body: AsyncIterator[bytes]
) -> ReceivedForm:
    """Store a part, of which no more is read than there is room for. Raises as `receive_form`."""
    field = replace(_DATA, max_bytes=min(MAX_PART_BYTES, room))
    try:
        return await receive_form(incoming, field, _take_any_name, content_type=content_type, body=body)
    except TooLarge as error:
        if room >= MAX_PART_BYTES:
            raise
        raise _no_room() from error


async def _room(uploads: UploadRepository, upload: UploadRow) -> int:
    """Bytes that may still come: a part may be sent twice, but not without end. Raises BadRequest where none may."""
    parts = await uploads.parts(upload.id)
    room = 2 * upload.bytes - sum(part.bytes for part in parts.values())
    if len(parts) >= MAX_PARTS or room <= 0:
        raise _no_room()
    return room


def _no_room() -> BadRequest:
    message = f"An upload may have {MAX_PARTS} parts at most, and not more than twice the bytes it was created for."
    return BadRequest(message, param=_DATA.name, code="too_many_parts")


async def _find(connection: AsyncConnection[TupleRow], upload_id: str) -> UploadRow:
    return _found(await UploadRepository(connection).get(upload_id), upload_id)


def _found(upload: UploadRow | None, upload_id: str) -> UploadRow:
    if upload is None:
        raise NotFound(f"No such Upload object: {upload_id}", param="upload_id", code="not_found")
    return upload


def _pending(upload: UploadRow | None, upload_id: str) -> UploadRow:
    """The upload, if something can be done with it. Raises NotFound, BadRequest."""
    found = _found(upload, upload_id)
    if found.status != "pending":
        # 400 and not 409, which the SDK would repeat.
        raise BadRequest(f"Upload {upload_id} is {found.status} and no longer pending.", code="invalid_state")
    return found


async def _with_file(connection: AsyncConnection[TupleRow], upload: UploadRow) -> UploadObject:
    file = None if upload.file_id is None else await FileRepository(connection).get(upload.file_id)
    return to_upload_object(upload, file)
