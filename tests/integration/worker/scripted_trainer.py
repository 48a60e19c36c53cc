"""A trainer without a model: `python -m tests.integration.worker.scripted_trainer CONTROL_DIR RUN_DIR`.

It keeps the real trainer's contract (lock, secrets on standard input, event log, resume from the last complete
checkpoint, SIGTERM) and does what `CONTROL_DIR/plan.json` says.
"""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import IO

from rft.core.base import Record
from rft.core.events import EventLine, RunEnded, RunStarted, TrainEvent
from rft.core.spec import RunSecrets, RunSpec
from rft.run_directory import layout
from rft.scratch.disk import EXIT_DISK_FULL, is_disk_full
from tests.shared.train_events import (
    ENDPOINT_DOWN,
    hold_began,
    hold_ended,
    numbered,
    one_step,
    rollout_done,
)


class Fault(Record):
    """What goes wrong in the middle of a step."""

    launch: int
    """Which launch, from 1; 0: every one."""
    step: int
    how: str
    """kill, exit, torn (half a line, then kill), hang (until told), garbage (a line that is no event), hold (until
    told), hold_kill and hold_fail (held, and then that), fill (the disk, and end as on a full one)."""


class Plan(Record):
    """What the trainer is to do."""

    steps: int = 3
    rollouts: int = 3
    step_s: float = 0.02
    faults: tuple[Fault, ...] = ()
    ended: RunEnded = RunEnded(outcome="succeeded", best_step=2)
    is_deaf: bool = False
    """Ignores SIGTERM."""


class Log:
    """The event log, taken over where it ends."""

    def __init__(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        path.write_bytes(b"".join(whole))
        self.seq = EventLine.model_validate_json(whole[-1]).seq if whole else 0
        self.file: IO[bytes] = path.open("ab", buffering=0)

    def append(self, event: TrainEvent) -> None:
        """One line; written at once."""
        line = numbered([event], after=self.seq)[0]
        self.seq = line.seq
        self.file.write(line.model_copy(update={"at": time.time()}).model_dump_json().encode() + b"\n")


def main(control: Path, folder: Path) -> None:
    """Run the plan."""
    lock = (folder / layout.LOCK).open("ab")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    plan = Plan.model_validate_json((control / "plan.json").read_text())
    spec = RunSpec.model_validate_json((folder / layout.SPEC).read_text())
    (control / "secrets.json").write_text(RunSecrets.model_validate_json(sys.stdin.read()).model_dump_json())
    with (control / "launches").open("a") as launches:
        launches.write(f"{os.getpid()}\n")
    launch = len((control / "launches").read_text().split())
    log = Log(folder / layout.EVENTS)

    def on_sigterm(number: int, frame: object) -> None:
        stop(log)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if plan.is_deaf else on_sigterm)
    resumed = last_checkpoint(folder)
    log.append(RunStarted(resumed_from_step=resumed, total_steps=plan.steps, pid=os.getpid()))
    print(f"launch {launch}, {len((folder / layout.TRAIN_ROWS).read_text().splitlines())} rows", flush=True)
    for step in range(0 if resumed is None else resumed + 1, plan.steps + 1):
        time.sleep(plan.step_s)
        fault = next((f for f in plan.faults if f.launch in (0, launch) and f.step == step), None)
        if fault is not None:
            log.append(rollout_done(spec.job_id, step, 0))
            break_down(fault, log, control)
        events = list(one_step(spec.job_id, step, plan.steps, rollouts=plan.rollouts))
        for event in events[:-1]:
            log.append(event)
        save_checkpoint(folder, step)
        log.append(events[-1])
    log.append(plan.ended)


def break_down(fault: Fault, log: Log, control: Path) -> None:
    """Do what the fault says."""
    print("Authorization: tool-secret-value was used before the crash", flush=True)
    match fault.how:
        case "torn":
            log.file.write(b'{"seq":%d,"at":1.0,"event":{"type":"no' % (log.seq + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        case "garbage":
            log.file.write(b'{"seq":%d,"at":1.0,"event":{"type":"nonsense"}}\n' % (log.seq + 1))
            time.sleep(60)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(3)
        case "fill":
            fill_the_disk(log)
        case "hang":
            tell_hanging(control)
            wait_to_go_on(control)
        case "hold" | "hold_kill" | "hold_fail":
            log.append(hold_began(fault.step))
            tell_hanging(control)
            wait_to_go_on(control)
            end_hold(fault, log)
        case _:
            raise ValueError(fault.how)


def fill_the_disk(log: Log) -> None:
    """Writes as a checkpoint does until there is no room, and ends as the real trainer does."""
    try:
        with (Path(log.file.name).parent / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(64 << 10))
    except OSError as error:
        sys.exit(EXIT_DISK_FULL if is_disk_full(error) else 3)


def tell_hanging(control: Path) -> None:
    """Who waits for the file reads a whole process id in it."""
    unfinished = control / "hanging.new"
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(control / "hanging")


def wait_to_go_on(control: Path) -> None:
    """Until the test says so."""
    while not (control / "go-on").exists():
        time.sleep(0.02)


def end_hold(fault: Fault, log: Log) -> None:
    """As the fault says."""
    match fault.how:
        case "hold_kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hold_fail":
            log.append(ENDPOINT_DOWN)
            sys.exit(1)
        case _:
            log.append(hold_ended(fault.step))


def stop(log: Log) -> None:
    """As the real trainer: the step is given up, the run can go on later."""
    log.append(RunEnded(outcome="stopped", best_step=None))
    sys.exit(0)


def save_checkpoint(folder: Path, step: int) -> None:
    """An empty adapter."""
    checkpoint = folder / layout.checkpoint_dir(step)
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / layout.COMPLETE).touch()


def last_checkpoint(folder: Path) -> int | None:
    """The step to go on from."""
    marked = (folder / layout.CHECKPOINTS).glob(f"checkpoint-*/{layout.COMPLETE}")
    return max((int(path.parent.name.removeprefix("checkpoint-")) for path in marked), default=None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
