"""One process at a time has a run directory."""

import fcntl
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rft.core.errors import RftError
from rft.run_directory import layout

_LOOK_S = 0.1


class RunDirectoryBusy(RftError):
    """Another process holds the run directory."""


@contextmanager
def locked(folder: Path, *, patience_s: float) -> Generator[None]:
    """Hold the directory's lock; a predecessor that is dying gets some time. Raises RunDirectoryBusy."""
    deadline_s = time.monotonic() + patience_s
    with (folder / layout.LOCK).open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise RunDirectoryBusy(f"another training process still holds {folder}") from None
                time.sleep(_LOOK_S)
        yield
