"""Uploads on the wire."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from rft.platform.api.pagination import Listed
from rft.platform.api.wire import OpenBody, TextBody, UnixTime, must_be
from rft.platform.files.schemas import FileObject, UploadPurpose
from rft.platform.files.uploading import MAX_FILE_BYTES

MAX_PART_BYTES = 64 << 20
MAX_PARTS = 1_000
UploadStatus = Literal["pending", "completed", "cancelled", "expired"]


class ExpiresAfter(OpenBody):
    """How long the file is kept."""

    anchor: Literal["created_at"]
    seconds: Annotated[
        Annotated[int, Field(ge=3600, le=2_592_000, strict=True)], must_be("a whole number from 3600 to 2592000")
    ]


class UploadCreate(TextBody):
    """A large file, announced."""

    bytes: Annotated[
        Annotated[int, Field(ge=1, le=MAX_FILE_BYTES, strict=True)],
        must_be(f"a whole number of bytes from 1 to {MAX_FILE_BYTES}"),
    ]
    """How many its parts will hold together; 512 MB at most, as for any file."""
    filename: Annotated[
        Annotated[str, Field(min_length=1, max_length=255)], must_be("a name of 1 to 255 printable characters")
    ]
    mime_type: Annotated[Annotated[str, Field(max_length=255)], must_be("a text of 255 characters at most")]
    """Means nothing here."""
    purpose: UploadPurpose
    expires_after: ExpiresAfter | None = None


class UploadComplete(TextBody):
    """All parts are there."""

    part_ids: Annotated[
        Annotated[list[str], Field(min_length=1, max_length=MAX_PARTS)],
        must_be(f"a list of 1 to {MAX_PARTS} ids of parts"),
    ]
    """In the order of their bytes."""
    md5: Annotated[Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{32}$")], must_be("32 hexadecimal digits")] | None = None
    """Of the whole file."""


class UploadObject(Listed):
    """An upload as the contract shows it."""

    object: Literal["upload"] = "upload"
    bytes: int
    """As announced."""
    created_at: UnixTime
    """Unix time in seconds."""
    expires_at: UnixTime
    filename: str
    purpose: str
    status: UploadStatus
    file: FileObject | None = None
    """Once it is completed, as long as there is that file."""


class PartObject(BaseModel):
    """A part of an upload."""

    id: str
    object: Literal["upload.part"] = "upload.part"
    created_at: UnixTime
    """Unix time in seconds."""
    upload_id: str
