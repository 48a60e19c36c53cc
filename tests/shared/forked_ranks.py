"""Ranks forked from a process that has imported torch: importing takes longer than all else they do in most tests."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from rft.core.devices import Devices
from rft.trainer.ranks import processes
from rft.trainer.ranks.world import World

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(["tests.e2e.trainer.imported_trainer"])
STARTED: list["ForkedRank"] = []


class ForkedRank:
    """What `RankProcesses` does with a child, done with a fork."""

    def __init__(self, environment: Mapping[str, str], store: Path) -> None:
        ours, self.stdin = _forking.Pipe(duplex=False)
        self._process = _forking.Process(target=_compute, args=(dict(environment), store, ours))
        self._process.start()
        ours.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("rank", timeout or 0.0)
        return status

    def kill(self) -> None:
        """At once."""
        self._process.kill()


def start_forked(world: World, devices: Devices, store: Path) -> ForkedRank:
    """In place of `rft.trainer.ranks.processes._start`."""
    environment = {**os.environ, **processes._launch(world)}  # pyright: ignore[reportPrivateUsage]
    processes.use_own_gpu(environment, world, devices)
    STARTED.append(rank := ForkedRank(environment, store))
    return rank


def _compute(environment: Mapping[str, str], store: Path, stdin: Connection) -> None:
    """In the fork: `python -m rft.trainer.ranks.process STORE`, which ends with its input."""
    from rft.trainer.ranks.process import main

    os.environ.clear()
    os.environ.update(environment)
    os.dup2(stdin.fileno(), 0)
    stdin.close()
    sys.stdin = os.fdopen(0)
    sys.argv = ["rank", str(store)]
    sys.exit(main())
