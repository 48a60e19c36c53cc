"""An upload on its way in: from the socket to the store, chunk by chunk, the validator reading along."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, Self

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError, model_validator
from starlette.requests import ClientDisconnect

from rft.core.dataset_report import DatasetCheck, DatasetReport
from rft.core.ids import public_id
from rft.platform.api.errors import BadRequest, TooLarge, Unavailable
from rft.platform.files.incoming import Incoming
from rft.platform.files.multipart import PartBegan, PartBytes, PartEnded, PartEvent, read_parts
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.files.schemas import UploadPurpose
from rft.platform.files.storage import BytesNotStored, FileStore
from rft.platform.store.database import Database

_LOG = logging.getLogger(__name__)
MAX_FILE_BYTES = 512 << 20
_BLOCK_BYTES = 1 << 20
_MAX_FIELDS = 32
_MAX_FIELD_BYTES = 64 << 10
FINE_TUNE = "fine-tune"


class UploadFields(BaseModel):
    """The form beside its file."""

    purpose: UploadPurpose
    expires_after_anchor: Annotated[Literal["created_at"] | None, Field(alias="expires_after[anchor]")] = None
    expires_after_s: Annotated[int | None, Field(alias="expires_after[seconds]", ge=3600, le=2_592_000)] = None

    @model_validator(mode="after")
    def _expires_by_both(self) -> Self:
        if (self.expires_after_anchor is None) != (self.expires_after_s is None):
            field = "expires_after[anchor]" if self.expires_after_anchor is None else "expires_after[seconds]"
            raise ValidationError.from_exception_data("form", [{"type": "missing", "loc": (field,), "input": None}])
        return self


@dataclass(slots=True)
class _Received:
    """A file whose bytes are stored."""

    filename: str
    bytes: int = 0
    check: DatasetCheck | None = field(default_factory=DatasetCheck)


async def receive_upload(
    database: Database, store: FileStore, *, content_type: str, body: AsyncIterator[bytes]
) -> FileRow:
    """Keep the file of a form. Raises BadRequest, TooLarge, Unavailable, RequestValidationError: nothing is kept."""
    file_id = public_id("file-", secrets.token_bytes(22), length=22)
    fields: dict[str, str] = {}
    received: _Received | None = None
    incoming = Incoming(database, store, file_id)
    try:
        parts = read_parts(content_type, incoming.watched(body))
        async for part in parts:
            assert isinstance(part, PartBegan), "the readers below take a part to its end"
            if part.name == "file" and part.filename is not None:
                if received is not None:
                    raise BadRequest("One file per upload.", param="file", code="invalid_value")
                received = _Received(part.filename.replace("\\", "/").rsplit("/", 1)[-1])
                await incoming.begin()
                await _receive_file(store, file_id, received, fields, parts)
            else:
                fields[part.name] = await _receive_text(part.name, parts)
                if len(fields) > _MAX_FIELDS:
                    raise BadRequest(f"A form may have {_MAX_FIELDS} fields at most.", code="invalid_form")
        return await _insert(database, incoming, file_id, received, fields)
    except BaseException as error:
        await incoming.drop()
        if isinstance(error, ClientDisconnect):
            raise BadRequest("The upload was broken off.", param="file", code="invalid_form") from error
        if isinstance(error, BytesNotStored):
            _LOG.error("an upload failed: %s", error)
            raise Unavailable("The file could not be stored; try again.", code="storage_unavailable") from error
        raise


async def _receive_file(
    store: FileStore, file_id: str, received: _Received, fields: dict[str, str], parts: AsyncIterator[PartEvent]
) -> None:
    if "purpose" in fields:  # Otherwise it comes after the file, and is judged then.
        purpose = _checked(_complete(fields)).purpose
        _check_name(received.filename, purpose)
        if purpose != FINE_TUNE:
            received.check = None
    received.bytes = await store.put(file_id, _blocks(received, parts))


async def _insert(
    database: Database, incoming: Incoming, file_id: str, received: _Received | None, fields: dict[str, str]
) -> FileRow:
    if received is None:
        raise BadRequest("Missing required parameter: 'file'.", param="file", code="missing_required_parameter")
    wanted = _checked(fields)
    _check_name(received.filename, wanted.purpose)
    if received.bytes == 0:
        raise BadRequest("The file is empty.", param="file", code="invalid_file_format")
    report = None
    if wanted.purpose == FINE_TUNE and received.check is not None:
        report = await asyncio.to_thread(received.check.end)
    async with database.transaction() as connection:
        await incoming.keep(connection)
        return await FileRepository(connection).insert(
            id=file_id,
            filename=received.filename,
            purpose=wanted.purpose,
            bytes=received.bytes,
            storage_key=file_id,
            expires_after_s=wanted.expires_after_s,
            report=report,
            status_details=_details(report),
        )


def _checked(fields: dict[str, str]) -> UploadFields:
    try:
        return UploadFields.model_validate(fields)
    except ValidationError as error:
        found = [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
        raise RequestValidationError(found) from error


def _complete(fields: dict[str, str]) -> dict[str, str]:
    """Without half an expiry, whose other half may come after the file."""
    halves = {name for name in fields if name.startswith("expires_after[")}
    return {name: value for name, value in fields.items() if len(halves) != 1 or name not in halves}


def _check_name(filename: str, purpose: UploadPurpose) -> None:
    if not filename or len(filename) > 255 or not filename.isprintable():
        raise BadRequest("The file needs a name of 1 to 255 printable characters.", param="file", code="invalid_value")
    if purpose == FINE_TUNE and not filename.lower().endswith(".jsonl"):
        raise BadRequest(
            f"A file for fine-tuning must be JSON Lines and its name end in .jsonl; this is {filename!r}.",
            param="file",
            code="invalid_file_format",
        )


async def _blocks(received: _Received, parts: AsyncIterator[PartEvent]) -> AsyncIterator[bytes]:
    """The file in larger pieces than sockets give; the validator reads each before it is stored."""
    size, block = 0, bytearray()
    async for data in _data(parts):
        size += len(data)
        if size > MAX_FILE_BYTES:
            raise TooLarge(f"A file may have {MAX_FILE_BYTES >> 20} MB at most.", param="file", code="file_too_large")
        block += data
        if len(block) >= _BLOCK_BYTES:
            yield await _read_along(received, block)
            block = bytearray()
    if block:
        yield await _read_along(received, block)


async def _read_along(received: _Received, block: bytearray) -> bytes:
    chunk = bytes(block)
    if received.check is not None:
        await asyncio.to_thread(received.check.feed, chunk)
    return chunk


async def _receive_text(name: str, parts: AsyncIterator[PartEvent]) -> str:
    value = bytearray()
    async for data in _data(parts):
        value += data
        if len(value) > _MAX_FIELD_BYTES:
            raise BadRequest(f"The field '{name}' is too long.", param=name, code="invalid_value")
    return value.decode(errors="replace")


async def _data(parts: AsyncIterator[PartEvent]) -> AsyncIterator[bytes]:
    """The bytes of the part that began last."""
    async for event in parts:
        match event:
            case PartBytes(data):
                yield data
            case PartEnded():
                return
            case PartBegan():
                raise AssertionError("a part ends before another begins")


def _details(report: DatasetReport | None) -> str | None:
    summary = None if report is None else report.summary()
    return None if summary is None else f"Jobs will refuse this file; it has {summary}"
