"""A trainer that starts in no time and does what it is told: `quick_trainer.py CONTROL_DIR RUN_DIR`.

Plain standard library, so that a test can afford many of them. It keeps the trainer's contract: lock, event log, resume
after the last complete step, SIGTERM. `CONTROL_DIR/events.json` holds one event of each kind to fill in.
"""

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

STEPS = 3
ROLLOUTS = 2


class Run:
    """One process over one run directory."""

    def __init__(self, control: Path, folder: Path) -> None:
        self.job_id, self.folder, self.control = folder.name, folder, control
        self.events: dict[str, Any] = json.loads((control / "events.json").read_text())
        log = folder / "events.jsonl"
        self.seq = len(log.read_bytes().splitlines()) if log.exists() else 0
        self.log = log.open("ab", buffering=0)
        self.checkpoint = folder / "last_step"
        self.last_step = int(self.checkpoint.read_text()) if self.checkpoint.exists() else None

    def tell(self, kind: str, **fields: object) -> None:
        """Append an event."""
        self.seq += 1
        line = {"seq": self.seq, "at": time.time(), "event": self.events[kind] | fields}
        self.log.write(json.dumps(line).encode() + b"\n")

    def rollout(self, index: int) -> None:
        """The index-th rollout of the step."""
        key = self.events["rollout_done"]["key"] | {"job_id": self.job_id, "step": self.step, "index": index}
        self.tell("rollout_done", key=key, trace_id=f"trace_{self.job_id}_{self.step}_{index}")

    @property
    def step(self) -> int:
        """The one being worked at."""
        return 0 if self.last_step is None else self.last_step + 1

    def complete(self) -> None:
        """The whole step: rollouts, ledger, checkpoint."""
        for index in range(ROLLOUTS):
            self.rollout(index)
        self.tell("attempts_made", step=self.step)
        self.last_step = self.step
        unfinished = self.checkpoint.with_name(".last_step")
        unfinished.write_text(str(self.last_step))
        unfinished.replace(self.checkpoint)
        self.tell("step_done", step=self.last_step)
        if self.last_step == STEPS:
            self.end("succeeded")

    def end(self, outcome: str) -> NoReturn:
        """The last word."""
        self.tell("run_ended", outcome=outcome)
        sys.exit(0)

    def commands(self) -> Iterator[str]:
        """What was said since this process began."""
        path = self.control / f"{self.job_id}.commands"
        path.touch()
        with path.open() as file:
            file.seek(0, os.SEEK_END)
            self.tell("run_started", resumed_from_step=self.last_step, pid=os.getpid())
            while True:
                line = file.readline()
                if line:
                    yield line.strip()
                else:
                    time.sleep(0.005)


def main(control: Path, folder: Path) -> None:
    """Do what is commanded."""
    lock = (folder / "trainer.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (control / "two-trainers").touch()
        raise
    run = Run(control, folder)

    def on_sigterm(number: int, frame: object) -> NoReturn:
        run.end("stopped")

    signal.signal(signal.SIGTERM, on_sigterm)
    with (control / f"{run.job_id}.launches").open("a") as launches:
        launches.write(f"{os.getpid()}\n")
    for command in run.commands():
        match command:
            case "step":
                run.complete()
            case "half":
                run.rollout(0)
            case "hold":
                run.tell("hold_began", step=run.step)
            case "release":
                run.tell("hold_ended", step=run.step)
            case "give up":
                run.end("failed")
            case _:
                raise ValueError(command)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
