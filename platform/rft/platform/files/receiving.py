"""A form with one file on its way in: from the socket to the store, chunk by chunk."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect

from rft.platform.api.errors import BadRequest, TooLarge, Unavailable
from rft.platform.files.incoming import Incoming
from rft.platform.files.multipart import PartBegan, PartEvent, read_parts
from rft.platform.store.file_store import BytesNotStored

_LOG = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 20
_MAX_FIELDS = 32
_MAX_FIELD_BYTES = 64 << 10


def form_with(schema: dict[str, object]) -> dict[str, object]:
    """What OpenAPI says of an endpoint that takes such a form: FastAPI, which would read it whole, never sees it."""
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


@dataclass(frozen=True, slots=True)
class FileField:
    """The field of a form that holds its file."""

    name: str
    noun: str
    """What the file is called, e.g. `file`."""
    max_bytes: int


@dataclass(slots=True)
class ReceivedForm:
    """A form whose file's bytes are stored."""

    filename: str
    bytes: int = 0
    """Never 0 once it is whole."""
    fields: dict[str, str] = field(default_factory=dict[str, str])
    """All but the file."""


FormCheck = Callable[[str, Mapping[str, str]], None]
"""Looks at the file's name and the fields before it; raises BadRequest to stop before a byte is stored."""


@asynccontextmanager
async def whole_or_nothing(incoming: Incoming, file: FileField) -> AsyncGenerator[None]:
    """Whatever is raised inside, no bytes stay but those of a committed row.

    Raises BadRequest and Unavailable for what befell the bytes.
    """
    try:
        yield
    except BaseException as error:
        await incoming.drop()
        if isinstance(error, ClientDisconnect):
            raise BadRequest("The upload was broken off.", param=file.name, code="invalid_form") from error
        if isinstance(error, BytesNotStored):
            _LOG.error("an upload failed: %s", error)
            message = f"The {file.noun} could not be stored; try again."
            raise Unavailable(message, code="storage_unavailable") from error
        raise


async def receive_form(
    incoming: Incoming, file: FileField, check: FormCheck, *, content_type: str, body: AsyncIterator[bytes]
) -> ReceivedForm:
    """Store the form's file. Raises BadRequest, TooLarge, and what `whole_or_nothing` is there for."""
    fields: dict[str, str] = {}
    received: ReceivedForm | None = None
    seen = 0
    parts = read_parts(content_type, incoming.watched(body), file_field=file.name)
    async for part in parts:
        assert isinstance(part, PartBegan), "the readers below take a part to its end"
        if part.name == file.name and part.filename is not None:
            if received is not None:
                raise BadRequest(f"One {file.noun} per upload.", param=file.name, code="invalid_value")
            received = ReceivedForm(part.filename.replace("\\", "/").rsplit("/", 1)[-1])
            await incoming.begin()
            check(received.filename, fields)
            received.bytes = await incoming.store_bytes(_blocks(file, parts))
        else:
            fields[part.name] = await _receive_text(part.name, parts)
            seen += 1  # Whatever their names: a form of hundreds of megabytes may be nothing but fields.
            if seen > _MAX_FIELDS:
                raise BadRequest(f"A form may have {_MAX_FIELDS} fields at most.", code="invalid_form")
    if received is None:
        raise BadRequest(
            f"Missing required parameter: '{file.name}'.", param=file.name, code="missing_required_parameter"
        )
    received.fields = fields
    return received


async def _blocks(file: FileField, parts: AsyncIterator[PartEvent]) -> AsyncIterator[bytes]:
    """The file in larger pieces than sockets give."""
    size, block = 0, bytearray()
    async for data in _data(parts):
        size += len(data)
        if size > file.max_bytes:
            raise TooLarge(
                f"A {file.noun} may have {file.max_bytes >> 20} MB at most.",
                param=file.name,
                code=f"{file.noun}_too_large",
            )
        block += data
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block = bytearray()
    if block:
        yield bytes(block)


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
        if event is None:
            return
        assert isinstance(event, bytes), "a part ends before another begins"
        yield event
