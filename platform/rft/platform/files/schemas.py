"""Files on the wire."""

from typing import Literal

from pydantic import BaseModel

from rft.platform.api.pagination import Listed

UploadPurpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]


class DatasetObject(BaseModel):
    """Ours: what the validator found in a file for fine-tuning."""

    rows: int
    problems: int
    """Lines that keep jobs from using the file."""
    first_problems: list[str]
    """Line, path and reason."""
    stopped_at_line: int | None
    """From this line on the file was not read, for too much is wrong before it; None: all of it was read."""
    duplicates: int
    """Rows that an earlier line has already."""
    tools: list[str]
    """Tools that rows describe."""
    longest_row_tokens: int
    """Length of the longest prompt, estimated from its characters."""


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
    dataset: DatasetObject | None
    """None for files that are no datasets."""


class ProblemObject(Listed):
    """Ours: one bad line of a file for fine-tuning."""

    object: Literal["file.problem"] = "file.problem"
    line: int
    """From 1."""
    path: str
    """Where in the line, e.g. `messages[0].role`; empty for the whole line."""
    reason: str


class FileDeleted(BaseModel):
    """The reply to a deletion."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True
