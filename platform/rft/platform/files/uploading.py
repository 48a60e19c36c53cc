"""An uploaded file: its form, its name, its bytes; a dataset is read once it is stored."""

import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Literal, Self

from fastapi.exceptions import RequestValidationError
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
        report = None
        if wanted.purpose == FINE_TUNE:
            report = await checks.report(store, file_id, size=form.bytes)
        async with database.transaction() as connection:
            await incoming.keep(connection)
            return await FileRepository(connection).insert(
                id=file_id,
                filename=form.filename,
                purpose=wanted.purpose,
                bytes=form.bytes,
                storage_key=file_id,
                expires_after_s=wanted.expires_after_s,
                report=report,
                status_details=details_of(report),
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


def details_of(report: DatasetReport | None) -> str | None:
    """What keeps jobs from using the file, in words."""
    summary = None if report is None else report.summary()
    return None if summary is None else f"Jobs will refuse this file; it has {summary}"


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
