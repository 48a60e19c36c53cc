"""A temporary folder whose holder is known: what a killed process leaves behind is swept by the next one."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_HELD = ".held-by-rft"
"""A file that the holder keeps locked; a folder without it is none of ours."""


class ScratchFolder:
    """A new folder of ours, until it is removed or this process ends."""

    def __init__(self, prefix: str, *, parent: Path | None = None) -> None:
        """In `parent`, by default where temporary folders go. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            new = self.path / f"{_HELD}.new"
            self._lock = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            new.rename(self.path / _HELD)  # Nobody ever sees it unlocked while we live.
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


def sweep(prefix: str, *, parent: Path | None = None) -> list[Path]:
    """Remove the folders with this prefix whose holders are gone; returns them. Leaves everything foreign alone."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    with suppress(OSError):
        return [folder for folder in place.glob(f"{prefix}*") if _swept(folder)]
    return []


def _swept(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.geteuid():
        return False
    try:
        lock = os.open(folder / _HELD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
