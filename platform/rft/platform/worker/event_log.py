"""The trainer's event log as a file: read as it grows, repaired before a trainer takes it over."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rft.platform.worker.log_line import CorruptLog, LogLine, UnreadRollout, read_line

_SEQ = re.compile(rb'^\{"seq":\s*(\d+)\s*,')
_BUFFER_BYTES = 256 << 10


@dataclass(slots=True)
class EventLog:
    """Reads `events.jsonl` from where it stopped; lines count only once their newline is there."""

    path: Path
    offset: int = 0
    """Bytes already taken."""

    def read(
        self, *, after_seq: int, start: int | None = None, max_lines: int = 2000, max_bytes: int = 8 << 20
    ) -> tuple[list[LogLine], int]:
        """Up to `max_lines` events beyond `after_seq`, and the offset behind them; from `start`, else from our offset.

        The offset is not moved: set it once the events are stored. Raises CorruptLog; see `read_line`.
        """
        lines: list[LogLine] = []
        start = offset = self.offset if start is None else start
        if not self.path.exists():
            return lines, offset
        with self.path.open("rb", buffering=_BUFFER_BYTES) as file:
            file.seek(offset)
            is_new = False
            for line in file:
                if not line.endswith(b"\n"):
                    break
                is_new = is_new or (_seq(line) or after_seq + 1) > after_seq
                if is_new:
                    lines.append(read_line(line))
                offset += len(line)
                if len(lines) >= max_lines or offset - start >= max_bytes:
                    break
        return lines, offset

    def forget_beyond_end(self) -> None:
        """The file was cut: go on at its new end."""
        self.offset = min(self.offset, self.path.stat().st_size if self.path.exists() else 0)


def repair(path: Path) -> int:
    """Cut the log after its last good line and return that line's number (0 for none).

    Only while no trainer runs. Good means: complete, an event, numbered one more than the line before.
    """
    if not path.exists():
        return 0
    good_bytes = last_seq = 0
    with path.open("rb") as file:
        for line, seq in _numbered(file):
            if seq != last_seq + 1:
                break
            last_seq, good_bytes = seq, good_bytes + len(line)
    if path.stat().st_size > good_bytes:
        os.truncate(path, good_bytes)
    return last_seq


def _numbered(file: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    for line in file:
        if not line.endswith(b"\n"):
            return
        try:
            read = read_line(line)
            if isinstance(read.event, UnreadRollout):
                read.event.read()
            yield line, read.seq
        except CorruptLog:
            return


def _seq(line: bytes) -> int | None:
    match = _SEQ.match(line)
    return int(match[1]) if match else None
