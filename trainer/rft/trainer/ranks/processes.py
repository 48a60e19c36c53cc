"""The other ranks of one host, started by rank 0 as processes that never outlive it. No torch: they import it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rft.core.devices import Devices
from rft.core.errors import RftError
from rft.scratch.folder import ScratchFolder, sweep
from rft.trainer.ranks.world import World, use_own_gpu

EXIT_RANK_LOST = 76
"""How a trainer ends that has lost a rank. (EX_PROTOCOL: the other side broke off.)"""
_FOLDER = "rft-ranks-"
_END_S = 10.0
_LOOK_S, _POLL_S = 0.5, 0.01


class RankLost(RftError):
    """A rank has died. The run goes on from its last complete checkpoint, with new ones."""


@dataclass(slots=True)
class LaunchedRanks:
    """The other ranks of a world that `torchrun` has started."""

    world: World
    are_met: bool = False
    """Whether they are waited for, or were: until then they wait for us."""


class RankProcesses:
    """Ranks 1 to size - 1 of a world that is all on this host."""

    def __init__(self, world: World, devices: Devices) -> None:
        """Start them. They wait for us in `store`."""
        self.world = world
        sweep(_FOLDER)  # This process may be killed at any time.
        self._folder = ScratchFolder(_FOLDER)
        self.store = self._folder.path / "store"
        """A file where ranks find each other: nobody but our user reaches it, as anybody would a port of this host."""
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        try:
            for rank in range(1, world.size):
                self._children[rank] = _start(World(rank, world.size, rank, world.size), devices, self.store)
        except BaseException:
            self.close()
            raise

    def ended(self, *, within_s: float = 0.0) -> str | None:
        """Which rank has ended and how, in words; None while all live. Waits for one that is about to."""
        deadline_s = time.monotonic() + within_s
        while True:
            statuses = {rank: child.poll() for rank, child in self._children.items()}
            # Where one is killed, others may end because they lost it.
            ended = sorted((status == 0, rank, status) for rank, status in statuses.items() if status is not None)
            if ended:
                _, rank, status = ended[0]
                return f"rank {rank} of {self.world.size} {_how(status)}"
            if time.monotonic() >= deadline_s:
                return None
            time.sleep(_POLL_S)

    def close(self, *, grace_s: float = 0.0) -> None:
        """End them: those that were told to end may take `grace_s` for it. Idempotent."""
        for child in self._children.values():
            try:
                child.wait(grace_s)
            except subprocess.TimeoutExpired:
                child.kill()
        for child in self._children.values():
            child.wait(_END_S)
            assert child.stdin is not None
            child.stdin.close()
        self._folder.remove()


def _start(world: World, devices: Devices, store: Path) -> "subprocess.Popen[bytes]":
    """It inherits where its words go, and our process group; its input ends when we do."""
    environment = {**os.environ, **_launch(world)}
    use_own_gpu(environment, world, devices)
    command = [sys.executable, "-m", "rft.trainer.ranks.process", str(store)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)


def _launch(world: World) -> Mapping[str, str]:
    """What `torchrun` would say, but for where to meet."""
    return {
        "RANK": str(world.rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_RANK": str(world.local_rank),
        "LOCAL_WORLD_SIZE": str(world.local_size),
        **loopback_for_gloo(),
    }


def loopback_for_gloo() -> Mapping[str, str]:
    """Where gloo listens; by itself it would choose the address of the host's name."""
    names = (name for _, name in socket.if_nameindex() if name.startswith("lo"))
    return {"GLOO_SOCKET_IFNAME": next(names, "lo")}


def end_with_launcher() -> None:
    """In a rank that `torchrun` has started, in a session of its own: end at once when it has been killed."""
    threading.Thread(target=_wait_for_other_parent, args=(os.getppid(),), daemon=True).start()


def _wait_for_other_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(EXIT_RANK_LOST)


def end_with_input() -> None:
    """In a rank that rank 0 has started: end at once when rank 0 has, however that came about."""
    threading.Thread(target=_wait_for_end_of_input, daemon=True).start()


def _wait_for_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


def _how(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    hint = "; perhaps the host ran out of memory" if status == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-status).name}{hint}"
