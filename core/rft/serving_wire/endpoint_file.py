"""Where a serving process listens, for processes of the same user: a file that it keeps locked as long as it listens.

The lock ends with the process, however that ends, and a process that gets its number later does not have it.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from rft.serving_wire.records import ServingEndpoint

_NAME = "endpoint.json"
_LARGEST_BYTES = 4096


@contextmanager
def endpoint_file(folder: Path, endpoint: ServingEndpoint) -> Generator[None]:
    """There while this is entered, whole or not at all, and for its owner's eyes only: it holds the token."""
    unfinished = folder / f"{_NAME}.{os.getpid()}"
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, endpoint.model_dump_json().encode())
        unfinished.replace(folder / _NAME)  # Nobody ever sees it unlocked while we live.
        yield
    finally:
        remove_endpoint(folder)
        os.close(file)


def read_endpoint(folder: Path) -> ServingEndpoint | None:
    """Where a living process listens; None where there is none."""
    try:
        # Asked for each request to a model: bare system calls take a third of the time.
        file = os.open(folder / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _parsed(os.read(file, _LARGEST_BYTES)) if _is_locked(file) else None
    except ValidationError:
        return None
    finally:
        os.close(file)


def remove_endpoint(folder: Path) -> None:
    """Nobody listens any more; harmless where nobody did."""
    (folder / _NAME).unlink(missing_ok=True)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


@lru_cache(maxsize=64)
def _parsed(written: bytes) -> ServingEndpoint:
    """Once for each process: who asks a model asks for its process first."""
    return ServingEndpoint.model_validate_json(written)
