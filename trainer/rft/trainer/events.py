"""The trainer's side of the event log: numbered lines, appended, never changed."""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from rft.core.events import EventLine, StillWaiting, TrainEvent
from rft.run_directory.event_log import repair
from rft.run_directory.write_all import write_all

_LOG = logging.getLogger(__name__)
_ALIVE_EVERY_S = 30.0
_STEP_DONE = b'"event":{"type":"step_done",'
_RUN_STARTED = b'"event":{"type":"run_started",'
_ROLLOUT_DONE = re.compile(
    rb'\{"seq":\d+,"at":[^,]+,"event":\{"type":"rollout_done","key":\{[^{}]*\},"trace_id":"([^"]*)"'
)


class EventWriter:
    """Appends to `events.jsonl`; numbers go on where the log ends, a torn last line is cut off first.

    A line is one write, so that only the last one can be torn. Usable from several threads.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self.completed_steps: set[int] = set()
        """Steps whose `StepDone` is in the log."""
        self.launches = 0
        """Processes that took the run over so far, this one included once it said so."""
        self._seq = repair(path, self._note_step, is_corrupt_end_cut=False)
        self._file = path.open("ab", buffering=0)
        self._wrote_at_s = time.monotonic()

    def append(self, event: TrainEvent) -> None:
        """One more line. It survives the death of this process at once, that of the machine after `sync`."""
        with self._lock:
            line = EventLine(seq=self._seq + 1, at=self._clock(), event=event).model_dump_json().encode() + b"\n"
            append_whole(self._file.fileno(), line)
            self._seq += 1
            self._wrote_at_s = time.monotonic()
            if event.type == "step_done":
                self.completed_steps.add(event.step)
            elif event.type == "run_started":
                self.launches += 1

    def note_alive(self) -> None:
        """For whatever goes on for long and tells nothing meanwhile: the platform ends trainers that are silent."""
        if time.monotonic() - self._wrote_at_s >= _ALIVE_EVERY_S:
            try:
                self.append(StillWaiting())
            except OSError as error:  # An hour's work is not thrown away for it; what has to be told ends the run.
                _LOG.warning("that the run lives cannot be told: %s", error)

    def sync(self) -> None:
        """All lines are on the disk when this returns."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync and close; idempotent."""
        if not self._file.closed:
            self.sync()
            self._file.close()

    def _note_step(self, line: bytes) -> None:
        if _RUN_STARTED in line[:200]:
            self.launches += 1
        if _STEP_DONE not in line[:200]:
            return
        event = EventLine.model_validate_json(line).event
        if event.type == "step_done":
            self.completed_steps.add(event.step)


def told_rollouts(path: Path, among: Collection[str]) -> set[str]:
    """Ids of those `among` them whose end is in the log."""
    told: set[str] = set()
    if among and path.exists():
        with path.open("rb") as file:
            for line in file:
                found = _ROLLOUT_DONE.match(line)
                if found is not None and (trace_id := found[1].decode()) in among:
                    told.add(trace_id)
    return told


def append_whole(descriptor: int, line: bytes) -> None:
    """All of it or, on a full disk, nothing: the next line must not stand behind half of this one. Raises OSError."""
    end = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, line)
    except OSError:
        os.ftruncate(descriptor, end)
        raise
