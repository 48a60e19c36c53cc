"""Other ranks as forks of a process that has imported torch."""

import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from rft.core.devices import Devices
from rft.trainer.ranks import processes
from rft.trainer.ranks.world import World
from tests.shared.forked import Forked, forking

STARTED: list["ForkedRank"] = []


class ForkedRank(Forked):
    """What `RankProcesses` does with a child, done with a fork."""

    def __init__(self, environment: Mapping[str, str], store: Path) -> None:
        ours, self.stdin = forking.Pipe(duplex=False)
        super().__init__(_compute, dict(environment), store, ours)
        ours.close()

    def kill(self) -> None:
        """At once."""
        self.send_signal(signal.SIGKILL)


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
