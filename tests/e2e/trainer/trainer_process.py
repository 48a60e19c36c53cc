"""Trainers as processes of their own: started as the platform does, or forked from one that has imported torch.

Importing takes the trainer as long as all else it does in most of these tests.
"""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from rft.core.spec import RunSecrets
from rft.run_directory import layout
from tests.shared.forked import Forked


class TrainerProcess(Protocol):
    """What tests do with a trainer's process."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises subprocess.TimeoutExpired."""
        ...

    def send_signal(self, sig: int, /) -> None:
        """Nothing when it has ended."""
        ...


class ForkedProcess(Forked):
    """A fork of a process that has imported the trainer."""

    def __init__(self, run_dir: Path, secrets: RunSecrets | None) -> None:
        super().__init__(_train, run_dir, secrets.model_dump_json() if secrets else "")


def _train(run_dir: Path, secrets: str) -> None:
    """In the fork: `python -m rft.trainer RUN_DIR`, secrets on its standard input, what it says in the log."""
    from rft.trainer.__main__ import main

    with (run_dir / layout.LOG).open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    sys.stdin = io.StringIO(secrets)
    sys.exit(main([str(run_dir)]))


def launch_ranks(run_dir: Path, variables: Mapping[str, str]) -> None:
    """In a process that has imported the trainer: forks both ranks and waits for them."""
    from rft.trainer.__main__ import main

    os.environ.update(variables)
    with (run_dir / layout.LOG).open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)

    def started(rank: str) -> int:
        if pid := os.fork():
            return pid
        os.setsid()
        os.environ.update(RANK=rank, LOCAL_RANK=rank)
        os._exit(main([str(run_dir)]))

    ranks = [started(rank) for rank in ("0", "1")]
    sys.exit(sum(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks))


def start_process(
    run_dir: Path, secrets: RunSecrets | None, environment: Mapping[str, str] | None = None
) -> TrainerProcess:
    """As the platform starts it."""
    with (run_dir / layout.LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rft.trainer", str(run_dir)], stdin=subprocess.PIPE, stdout=log, stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(secrets.model_dump_json().encode() if secrets else b"")
    process.stdin.close()
    return process
