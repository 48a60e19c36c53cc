"""Which of how many ranks this process is, and what it computes on: said before torch is imported."""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from rft.core.devices import VISIBLE, Devices, hide_gpus, only_gpu
from rft.core.errors import RunPaused

UNFIT = "devices_unfit"
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@dataclass(frozen=True, slots=True)
class World:
    """One rank among all."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Among those of this host."""
    local_size: int = 1
    """Ranks of this host."""

    def threads(self, all_threads: int) -> int:
        """Of the host's threads for tensors, those of one rank while all compute."""
        return max(1, all_threads // self.local_size)


def launched_world(environment: Mapping[str, str]) -> World | None:
    """As `torchrun` and `accelerate launch` tell each process of theirs; None where neither started this one."""
    if int(environment.get("WORLD_SIZE", "1")) <= 1 or "RANK" not in environment:
        return None
    rank, size, local_rank, local_size = (int(environment.get(name, "0")) for name in _RANKS)
    return World(rank, size, local_rank, max(1, local_size))


def local_world(devices: Devices | None, *, cores: int | None = None) -> World:
    """Of rank 0, which starts the others itself. Raises RunPaused where the host has too few cores for them.

    `cores`: that this process may use; None: asked of the system.
    """
    if devices is None:
        return World()
    cores = _usable_cores() if cores is None else cores
    if devices.cpu_ranks > cores:
        raise RunPaused(
            UNFIT,
            f"RFT_DEVICES asks for {devices.cpu_ranks} ranks on the CPU, and this host lets us have {cores} of its"
            " cores. Ask for no more than that, restart the workers and resume the job.",
        )
    return World(size=devices.ranks, local_size=devices.ranks)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_own_gpu(environment: MutableMapping[str, str], world: World, devices: Devices | None) -> None:
    """Let this process see the one GPU that it trains on, or none where it is to train on the CPU.

    `devices`: None where a launcher started it, whose ranks see all GPUs of their host, or each its own alone.
    """
    if devices is not None and devices.cpu_ranks:
        hide_gpus(environment)
    elif devices is not None:
        environment.update(only_gpu(devices.train[world.local_rank]))
    elif visible := [number for number in environment.get(VISIBLE, "").split(",") if number]:
        own = 0 if len(visible) == 1 else world.local_rank
        environment[VISIBLE] = visible[own] if own < len(visible) else ""
    elif VISIBLE not in environment:
        environment[VISIBLE] = str(world.local_rank)


def hide_launch(environment: MutableMapping[str, str]) -> None:
    """From accelerate, which TRL's Trainer stands on: in each rank it is to train as if there were no other.

    It would wrap the model and gather figures after every micro-batch, of which ranks have different numbers.
    """
    for name in [name for name in environment if name in _RANKS or name.startswith("ACCELERATE_")]:
        del environment[name]
