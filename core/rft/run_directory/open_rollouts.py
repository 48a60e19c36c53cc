"""The rollouts whose beginning was told to customers' servers and whose end was not, kept over the process's death."""

import json
import re
from io import FileIO
from pathlib import Path

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.run_directory.write_all import write_all

_MOST_LINES = 65_536
"""Beyond twice what is open; more are written anew."""
MOST_UNTOLD = 4096
"""Ends that are tried again. A server that takes none would be asked for those of its whole history."""
_LINE = re.compile(rb"([+-])(trace_[0-9a-f-]{36})\n|=(trace_[0-9a-f-]{36}) (\{[^\n{}]*\})\n")
"""A line that a full disk cut off has no end, and the next one begins within it."""
_LINE_BYTES = 44


class OpenRolloutsFile:
    """A journal in the run directory: `+` for a beginning, `=` and how it ended, `-` where nothing more is to be told.

    Emptied whenever nothing is open, and cut down to what is open where that never comes: rollouts of the next steps
    may always be under way.

    An end that could not be told stays open, for a process that tries again later. It outlives the process, not the
    machine: a host that lost its trainer's machine frees by its own deadline.
    """

    def __init__(self, path: Path) -> None:
        self._open = _read(path)
        """How each ended; None where nobody knows."""
        self.left = list(self._open)
        """Left open by the processes before this one, in the order of their beginnings."""
        self.outcomes = {id_: outcome for id_, outcome in self._open.items() if outcome is not None}
        """Of these, how those had ended that had: what is told of one stays the same."""
        self._path, self._untold = path, dict.fromkeys(self.outcomes)
        """Open ones whose end could not be told, the longest ago first."""
        self._file: FileIO | None = None
        self._lines = path.stat().st_size // _LINE_BYTES if path.exists() else 0

    def begin(self, trace_id: str) -> None:
        """Its beginning is about to be told."""
        self._open[trace_id] = None
        self._write(f"+{trace_id}\n")

    def end(self, trace_id: str, outcome: Grade | Failure) -> None:
        """It has ended so, which is about to be told."""
        if trace_id in self._open and self._open[trace_id] is None:
            self._open[trace_id] = outcome
            self._write(f"={trace_id} {_told(outcome)}\n")

    def close(self, trace_id: str, *, is_over: bool) -> None:
        """Nothing more is to be told of it; not `is_over`: it could not be told within the retry budget."""
        if not is_over:
            self._untold[trace_id] = None
            if len(self._untold) <= MOST_UNTOLD:
                return
            trace_id = next(iter(self._untold))
        self._untold.pop(trace_id, None)
        self._open.pop(trace_id, None)
        self._write(f"-{trace_id}\n")
        if self._file is not None and not self._open:
            self._file.truncate(0)
            self._lines = 0
        elif self._lines > 2 * len(self._open) + _MOST_LINES:
            self._cut_down()

    def shut(self) -> None:
        """Nothing is noted any more; what is open stays for the next process."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _cut_down(self) -> None:
        """Whole or not at all."""
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_text(
            "".join(
                f"+{trace_id}\n" if outcome is None else f"+{trace_id}\n={trace_id} {_told(outcome)}\n"
                for trace_id, outcome in self._open.items()
            )
        )
        unfinished.replace(self._path)
        self.shut()
        self._lines = len(self._open)

    def _write(self, line: str) -> None:
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
            line = f"\n{line}"  # It must not join a last line that was torn.
        write_all(self._file.fileno(), line.encode())
        self._lines += 1


def _told(outcome: Grade | Failure) -> str:
    """What customers' servers hear of it, and no more: messages may quote what is theirs."""
    if isinstance(outcome, Grade):
        return json.dumps({"reward": outcome.reward})
    return json.dumps({"stage": outcome.stage, "code": outcome.code})


def _outcome(told: bytes) -> Grade | Failure | None:
    """None where another release wrote what this one does not know."""
    try:
        fields = json.loads(told)
        if "reward" in fields:
            return Grade(reward=fields["reward"], grader="")
        return Failure(stage=Stage(fields["stage"]), code=FailureCode(fields["code"]), message="")
    except (ValueError, KeyError):
        return None


def _read(path: Path) -> dict[str, Grade | Failure | None]:
    """How those ended that are open, by trace id; lines that no process finished are passed over."""
    found: dict[str, Grade | Failure | None] = {}
    for sign, trace_id, ended_id, told in _LINE.findall(path.read_bytes() if path.exists() else b""):
        if ended_id:
            found[ended_id.decode()] = _outcome(told)
        elif sign == b"+":
            found[trace_id.decode()] = None
        else:
            found.pop(trace_id.decode(), None)
    return found
