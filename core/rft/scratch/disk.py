"""Whether a disk is full: told by an error, or by what is left."""

import errno
import os
import shutil
from pathlib import Path

EXIT_DISK_FULL = 75
"""How a trainer ends that ran out of room: it could not even write that down. (EX_TEMPFAIL: try again later.)"""
_NUMBERS = frozenset({errno.ENOSPC, errno.EDQUOT})
_MESSAGES = ("No space left on device", "os error 28", "Disk quota exceeded", "os error 122")
"""Libraries that write by themselves put the system's words into errors of their own."""
NOTHING_LEFT_BYTES = 1 << 20
"""A disk with less than that is full."""


def is_disk_full(error: BaseException) -> bool:
    """Whether the error, or one that it came from, is a full disk's. Ask only of this machine's own errors."""
    seen, one = set[int](), error
    while one is not None and id(one) not in seen:
        if isinstance(one, OSError) and one.errno in _NUMBERS:
            return True
        if any(message in str(one) for message in _MESSAGES):
            return True
        seen.add(id(one))
        one = one.__cause__ or one.__context__
    return False


def has_nothing_left(folder: Path) -> bool:
    """Whether the disk of a folder is full now: some libraries do not say why they could not write."""
    return free_bytes(folder) < NOTHING_LEFT_BYTES


def free_bytes(folder: Path) -> int:
    """What may still be written to the disk of a folder, or of the one that will hold it. Raises OSError."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def require_room(folder: Path, wanted_bytes: int, what: str) -> None:
    """Raises OSError (ENOSPC) before something is half written."""
    if (free := free_bytes(folder)) < wanted_bytes:
        message = f"{os.strerror(errno.ENOSPC)}: {what} takes {wanted_bytes:,} bytes, {free:,} are free"
        raise OSError(errno.ENOSPC, message)
