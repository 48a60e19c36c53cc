"""Where a serving process listens, for processes of the same user: a file that is there as long as it listens."""

import os
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from rft.serving_wire.records import ServingEndpoint

_NAME = "endpoint.json"


def write_endpoint(folder: Path, endpoint: ServingEndpoint) -> None:
    """Whole or not at all, and for its owner's eyes only: it holds the token."""
    unfinished = folder / f"{_NAME}.{os.getpid()}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(endpoint.model_dump_json().encode())
    unfinished.replace(folder / _NAME)


def read_endpoint(folder: Path) -> ServingEndpoint | None:
    """None while nobody listens. One whose process was killed may still be told of."""
    try:
        status = (folder / _NAME).stat()
        return _read(folder, status.st_ino, status.st_mtime_ns)
    except (FileNotFoundError, ValidationError):
        return None


def remove_endpoint(folder: Path) -> None:
    """Nobody listens any more; harmless where nobody did."""
    (folder / _NAME).unlink(missing_ok=True)


@lru_cache(maxsize=64)
def _read(folder: Path, inode: int, written_ns: int) -> ServingEndpoint:
    """Once for each file: who asks a model asks for its process first."""
    del inode, written_ns  # Files are replaced, never written again.
    return ServingEndpoint.model_validate_json((folder / _NAME).read_bytes())
