"""The trainer's event log as a file: read as it grows, repaired before a trainer takes it over."""

from dataclasses import dataclass
from pathlib import Path

from rft.platform.worker.log_line import LogLine, UnreadRollout, read_line
from rft.run_directory import layout
from rft.run_directory.event_log import repair, seq_of
from rft.run_directory.lock import locked

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
                is_new = is_new or (seq_of(line) or after_seq + 1) > after_seq
                if is_new:
                    lines.append(read_line(line))
                offset += len(line)
                if len(lines) >= max_lines or offset - start >= max_bytes:
                    break
        return lines, offset


def take_over_log(folder: Path, *, patience_s: float = 10.0) -> int:
    """Wait until no trainer holds the run directory, cut its log behind the last good event, return that one's number.

    Raises RunDirectoryBusy.
    """
    with locked(folder, patience_s=patience_s):
        return repair(folder / layout.EVENTS, _check, is_corrupt_end_cut=True)


def _check(line: bytes) -> None:
    event = read_line(line).event
    if isinstance(event, UnreadRollout):
        event.read()
