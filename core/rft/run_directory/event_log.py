"""The event log as numbered lines: the trainer appends them, the worker reads them as they come, both repair it."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from rft.core.errors import RftError

_SEQ = re.compile(rb'^\{"seq":\s*(\d+)\s*,')
_LINE_END = b"}\n"


class CorruptLog(RftError):
    """A complete line of the log is not the event that belongs there: the rest of the file cannot be trusted."""


def seq_of(line: bytes) -> int | None:
    """The number of a complete line; None where it has none."""
    match = _SEQ.match(line)
    return int(match[1]) if match is not None and line.endswith(_LINE_END) else None


def repair(path: Path, take: Callable[[bytes], None], *, is_corrupt_end_cut: bool) -> int:
    """Cut the log behind its last good line; the number of that line, 0 for none. Only while nobody appends.

    `take` gets the good lines in order, and raises CorruptLog for one that is none. A last line that was not finished
    is always cut. A complete one that is corrupt raises CorruptLog, or is cut with all behind it.
    """
    if not path.exists():
        return 0
    last_seq = good_bytes = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                if seq_of(line) != last_seq + 1:
                    raise CorruptLog(f"line {last_seq + 1} of the event log is not event {last_seq + 1}")
                take(line)
            except CorruptLog:
                if not is_corrupt_end_cut:
                    raise
                break
            last_seq, good_bytes = last_seq + 1, good_bytes + len(line)
    if path.stat().st_size > good_bytes:
        os.truncate(path, good_bytes)
    return last_seq
