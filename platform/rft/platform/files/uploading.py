"""An uploaded file: its form, its name, its bytes; a dataset is read once it is stored."""

import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from fastapi.exceptions import RequestValidationError
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import BaseModel, Field, ValidationError, model_validator

from rft.core.dataset_report import DatasetReport
from rft.core.ids import public_id
from rft.platform.api.errors import BadRequest
from rft.platform.files.checking import DatasetChecks
from rft.platform.files.incoming import Incoming
from rft.platform.files.receiving import FileField, receive_form, whole_or_nothing
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.files.schemas import UploadPurpose
from rft.platform.store.database import Database
from rft.platform.store.file_store import FileStore

MAX_FILE_BYTES = 512 << 20
FINE_TUNE = "fine-tune"
_FILE = FileField("file", "file", MAX_FILE_BYTES)


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


async def receive_upload(
    database: Database, store: FileStore, checks: DatasetChecks, *, content_type: str, body: AsyncIterator[bytes]
) -> FileRow:
    """Keep the file of a form. Raises BadRequest, TooLarge, Unavailable, RequestValidationError: nothing is kept."""
    file_id = new_file_id()
    incoming = Incoming(database, store, file_id)
    async with whole_or_nothing(incoming, _FILE):
        form = await receive_form(incoming, _FILE, _check_form, content_type=content_type, body=body)
        wanted = _checked(form.fields)
        refuse_bad_name(form.filename, wanted.purpose, param="file")
        if form.bytes == 0:
            raise BadRequest("The file is empty.", param="file", code="invalid_file_format")
        file = ReceivedFile(file_id, form.filename, wanted.purpose, form.bytes, wanted.expires_after_s)
        report = await file.read(store, checks)
        async with database.transaction() as connection:
            return await file.keep(connection, incoming, report)


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file whose bytes are stored under its id, and that has no row yet."""

    id: str
    filename: str
    purpose: UploadPurpose
    bytes: int
    expires_after_s: int | None

    async def read(self, store: FileStore, checks: DatasetChecks) -> DatasetReport | None:
        """What is in a dataset; None for other files. Raises BytesMissing, CheckBroke."""
        return await checks.report(store, self.id, size=self.bytes) if self.purpose == FINE_TUNE else None

    async def keep(
        self, connection: AsyncConnection[TupleRow], incoming: Incoming, report: DatasetReport | None
    ) -> FileRow:
        """Write its row; from the commit on the bytes are its own. Raises Unavailable."""
        await incoming.keep(connection)
        problems = None if report is None else report.summary()
        return await FileRepository(connection).insert(
            id=self.id,
            filename=self.filename,
            purpose=self.purpose,
            bytes=self.bytes,
            storage_key=self.id,
            expires_after_s=self.expires_after_s,
            report=report,
            status_details=None if problems is None else f"Jobs will refuse this file; it has {problems}",
        )


def new_file_id() -> str:
    """The id of a new file, and the key of its bytes."""
    return public_id("file-", secrets.token_bytes(22), length=22)


def refuse_bad_name(filename: str, purpose: UploadPurpose, *, param: str) -> None:
    """Raises BadRequest for a name that a file for this purpose cannot have."""
    if not filename or len(filename) > 255 or not filename.isprintable():
        raise BadRequest("The file needs a name of 1 to 255 printable characters.", param=param, code="invalid_value")
    if purpose == FINE_TUNE and not filename.lower().endswith(".jsonl"):
        raise BadRequest(
            f"A file for fine-tuning must be JSON Lines and its name end in .jsonl; this is {filename!r}.",
            param=param,
            code="invalid_file_format",
        )


def _check_form(filename: str, fields: Mapping[str, str]) -> None:
    if "purpose" in fields:  # Otherwise it comes after the file, and is judged then.
        refuse_bad_name(filename, _checked(_complete(fields)).purpose, param="file")


def _checked(fields: Mapping[str, str]) -> UploadFields:
    try:
        return UploadFields.model_validate(fields)
    except ValidationError as error:
        found = [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
        raise RequestValidationError(found) from error


def _complete(fields: Mapping[str, str]) -> dict[str, str]:
    """Without half an expiry, whose other half may come after the file."""
    halves = {name for name in fields if name.startswith("expires_after[")}
    return {name: value for name, value in fields.items() if len(halves) != 1 or name not in halves}
