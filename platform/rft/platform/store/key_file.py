"""The file of the keys that secrets at rest are sealed with: one key a line, newest first, for our eyes only."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet

from rft.core.errors import RftError


class KeyFileUnusable(RftError):
    """The key file holds no key."""


def make_if_missing(path: Path) -> None:
    """Several processes may start at once: the first to link its key into place wins, all read that one."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = _written_beside(path, [Fernet.generate_key()])
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()


def read(path: Path) -> list[bytes]:
    """The keys, newest first. Raises KeyFileUnusable, OSError."""
    keys = path.read_bytes().split()
    if not keys:
        raise KeyFileUnusable(f"{path.name} holds no key")
    return keys


def replace(path: Path, keys: list[bytes]) -> None:
    """A reader sees the old keys or the new ones, never half; whoever owned the file still does."""
    owner = path.stat()
    fresh = _written_beside(path, keys)
    with suppress(PermissionError):  # only root gives files away, and only root needs to
        os.chown(fresh, owner.st_uid, owner.st_gid)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _written_beside(path: Path, keys: list[bytes]) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp makes it 0600
    with os.fdopen(handle, "wb") as file:
        file.write(b"\n".join(keys) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return Path(name)
