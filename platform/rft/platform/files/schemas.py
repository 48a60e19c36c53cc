"""Files on the wire."""

from typing import Literal

from pydantic import BaseModel

from rft.platform.api.pagination import Listed

UploadPurpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]


class FileObject(Listed):
    """A file as the contract shows it."""

    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    """Unix time in seconds."""
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["uploaded", "processed", "error"]
    status_details: str | None


class FileDeleted(BaseModel):
    """The reply to a deletion."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True
