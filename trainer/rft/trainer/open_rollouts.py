"""The rollouts whose beginning was told to customers' servers and whose end was not, kept over the process's death."""

import re
from io import FileIO
from pathlib import Path

from rft.trainer.events import write_all

_LINE = re.compile(rb"([+-])(trace_[0-9a-f-]{36})\n")


class OpenRolloutsFile:
    """A journal in the run directory: `+` for a beginning, `-` for a told end. Emptied whenever nothing is open.

    It outlives the process, not the machine: a host that lost its trainer's machine frees by its own deadline.
    """

    def __init__(self, path: Path) -> None:
        self.left = _read(path)
        """Left open by the processes before this one, in the order of their beginnings."""
        self._path, self._open = path, set(self.left)
        self._file: FileIO | None = None

    def begin(self, trace_id: str) -> None:
        """Its beginning is about to be told."""
        self._open.add(trace_id)
        self._write(f"+{trace_id}\n")

    def close(self, trace_id: str) -> None:
        """Its end was told, or could not be told within the retry budget."""
        self._open.discard(trace_id)
        self._write(f"-{trace_id}\n")
        if self._file is not None and not self._open:
            self._file.truncate(0)

    def shut(self) -> None:
        """Nothing is noted any more; what is open stays for the next process."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: str) -> None:
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
            line = f"\n{line}"  # It must not join a last line that was torn.
        write_all(self._file.fileno(), line.encode())


def _read(path: Path) -> list[str]:
    """Trace ids that are open; lines that no process finished are passed over."""
    found: dict[str, None] = {}
    for sign, trace_id in _LINE.findall(path.read_bytes() if path.exists() else b""):
        if sign == b"+":
            found[trace_id.decode()] = None
        else:
            found.pop(trace_id.decode(), None)
    return list(found)
