"""The trainer's progress, as a file that is replaced as a whole: read whenever somebody likes, never waited for."""

import os
from pathlib import Path

from pydantic import ValidationError

from rft.core.progress import RunProgress
from rft.run_directory import layout


def write_progress(folder: Path, progress: RunProgress) -> None:
    """Put it in the place of the last one. Raises OSError."""
    target = folder / layout.PROGRESS
    unfinished = target.with_suffix(".new")
    unfinished.write_bytes(progress.model_dump_json().encode())
    os.replace(unfinished, target)


def read_progress(folder: Path) -> RunProgress | None:
    """The last one; None where there is none, or none that this release reads."""
    try:
        return RunProgress.model_validate_json((folder / layout.PROGRESS).read_bytes())
    except (OSError, ValidationError):
        return None


def forget_progress(folder: Path) -> None:
    """What a process before this one did is no longer going on. Raises OSError."""
    (folder / layout.PROGRESS).unlink(missing_ok=True)
