"""How ranks reach each other: torch's process group over gloo, on CPUs and beside GPUs alike.

What goes over it once per step is the adapter's weights out and its gradient back, some hundred megabytes at most: what
a faster backend would save of that is nothing beside the step, and this one can be tried on any machine.

Ranks wait for rank 0 in a receive of this group, for hours while rollouts go on or are held: its timeout is therefore
one that never comes. Nobody waits in vain for one that has died: its connections close, which ends every receive.
Rank 0 itself waits by looking at the store, so that it can be stopped meanwhile.
"""

import logging
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import FileStore, Store  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from rft.core.errors import RunPaused
from rft.trainer.ranks.world import UNFIT, World

T = TypeVar("T")
FOR_EVER = timedelta(days=365)
_MEETING = timedelta(minutes=30)
"""How long ranks may take to import torch and find each other."""
_CLOSE_S = 10.0
_BEGIN = "rft/begin"
_AGREED = "agreed"
_LOOK_S = 0.05


class NotAgreed(RuntimeError):
    """Rank 0 does not go on with what all were about to begin. No fault of the rank that hears of it."""


class RankGroup:
    """This rank's connection to the others. One per process."""

    def __init__(self, world: World, store: Store) -> None:
        """Returns once all ranks are there."""
        self.world, self._store, self._said = world, store, 0
        # It would advise to let accelerate know of the ranks.
        logging.getLogger("transformers.training_args").setLevel(logging.ERROR)
        dist.init_process_group("gloo", store=store, rank=world.rank, world_size=world.size, timeout=FOR_EVER)
        # A group of its own: what breaks there breaks no other receive.
        self._living = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=FOR_EVER))
        self._is_closed = False
        self._opened = 0
        """Groups for passes over layers in parts."""
        self._layers: list[dist.ProcessGroup] = []
        """Those of them that were opened."""
        self._watching: list[threading.Thread] = []

    def on_loss(self, tell: Callable[[int], None]) -> None:
        """On rank 0: `tell`, in a thread, which rank has gone, once one has."""
        for rank in range(1, self.world.size):
            thread = threading.Thread(target=self._watch, args=(rank, tell), name=f"rank-{rank}", daemon=True)
            thread.start()
            self._watching.append(thread)

    def _watch(self, rank: int, tell: Callable[[int], None]) -> None:
        try:
            dist.recv(torch.zeros(1), src=rank, group=self._living)  # Never sent: it ends when the connection does.
        except RuntimeError:
            if not self._is_closed:
                tell(rank)

    def for_layers(self, look: Callable[[], None] = lambda: None) -> dist.ProcessGroup:
        """A group in which layers' parts are gathered, on all ranks at once. What breaks there breaks nothing else.

        `look`: on rank 0, called while others are waited for; what it raises lets them go, with NotAgreed. Raises
        RunPaused where some ranks have a GPU and others none.
        """
        self._opened += 1
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        if self.world.rank == 0:
            self._agree(backend, look)
        else:
            self._store.set(f"{self._agreement}/{self.world.rank}", backend)
            while not self._store.check([self._agreement]):
                time.sleep(_LOOK_S)
            if self._store.get(self._agreement).decode() != _AGREED:
                raise NotAgreed("rank 0 does not go on")
        group = cast(dist.ProcessGroup, dist.new_group(backend=backend, timeout=FOR_EVER))
        self._layers.append(group)
        return group

    def _agree(self, backend: str, look: Callable[[], None]) -> None:
        """Nobody enters a new group, whose members are waited for without a look, before all are about to."""
        said = "not agreed"
        try:
            others = [f"{self._agreement}/{rank}" for rank in range(1, self.world.size)]
            while not self._store.check(others):
                look()
            for rank, key in enumerate(others, start=1):
                if self._store.get(key).decode() != backend:
                    raise _unlike(rank, self.world.size, has_gpu=backend == "gloo")
            said = _AGREED
        finally:
            self._store.set(self._agreement, said)

    @property
    def _agreement(self) -> str:
        return f"rft/layers/{self._opened}"

    def is_turn_to_load(self) -> bool:
        """Whether the rank behind us has loaded its part: a host's memory need not hold the model for all at once."""
        is_first = self.world.rank == self.world.size - 1
        return is_first or self._store.check([f"rft/loaded/{self._opened}/{self.world.rank + 1}"])

    def has_loaded(self) -> None:
        """Let the rank before us load."""
        self._store.set(f"rft/loaded/{self._opened}/{self.world.rank}", "1")

    def most(self, number: int) -> int:
        """The largest of all ranks' numbers, on all of them."""
        numbers = torch.tensor([number])
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
        return int(numbers)

    def tell_failure(self, message: object) -> None:
        """On any other rank, where rank 0 cannot hear answers because it waits for our part of a pass."""
        self._store.set(f"rft/failure/{self.world.rank}", pickle.dumps(message).hex())

    def failure(self) -> tuple[int, Any] | None:
        """On rank 0: which rank told of one, and what."""
        for rank in range(1, self.world.size):
            if self._store.check([f"rft/failure/{rank}"]):
                return rank, pickle.loads(bytes.fromhex(self._store.get(f"rft/failure/{rank}").decode()))
        return None

    def hand_out(self, messages: Sequence[object]) -> None:
        """On rank 0: to each other rank its own."""
        dist.scatter_object_list([None], [None, *messages], src=0)

    def receive(self) -> Any:
        """On any other rank: what rank 0 hands out next."""
        received: list[Any] = [None]
        dist.scatter_object_list(received, None, src=0)
        return received[0]

    def answer(self, message: object) -> None:
        """On any other rank. Returns once rank 0 takes it."""
        self._said += 1
        self._store.set(self._key(self.world.rank), "1")
        dist.gather_object(message, None, dst=0)

    def are_answered(self) -> bool:
        """On rank 0: whether every other rank has an answer, so that `answers` waits for nobody."""
        return self._store.check([self._key(rank, self._said + 1) for rank in range(1, self.world.size)])

    def answers(self) -> list[Any]:
        """On rank 0: what the others answered, by rank."""
        self._said += 1
        for rank in range(1, self.world.size):
            self._store.delete_key(self._key(rank))
        received: list[Any] = [None] * self.world.size
        dist.gather_object(None, received, dst=0)
        return received[1:]

    def share(self, values: Tensor) -> None:
        """Rank 0's numbers become everybody's."""
        dist.broadcast(values, src=0)

    def add(self, values: Tensor) -> None:
        """Everybody's sum becomes rank 0's; those of the others are void afterwards."""
        dist.reduce(values, dst=0)

    def close(self, *, is_broken: bool = False) -> None:
        """Give the connections up. `is_broken`: in the middle of a pass that others no longer take part in."""
        self._is_closed = True
        if is_broken:
            # NCCL's would be waited for until their part of the pass came, which is never.
            for group in self._layers:
                group.abort()
        dist.destroy_process_group()
        for thread in self._watching:  # One that is left would crash the interpreter's end.
            thread.join(_CLOSE_S)

    def _key(self, rank: int, number: int | None = None) -> str:
        return f"rft/answer/{rank}/{self._said if number is None else number}"


def _unlike(rank: int, size: int, *, has_gpu: bool) -> RunPaused:
    ours, theirs = ("no GPU", f"rank {rank} has one") if has_gpu else ("a GPU", f"rank {rank} has none")
    return RunPaused(
        UNFIT,
        f"Rank 0 of {size} has {ours} and {theirs}: a base model in parts needs a GPU for each rank, or for none. Start"
        " no more ranks on a host than it has GPUs and resume the job.",
    )


def launched_store(world: World) -> Store:
    """What `torchrun` serves, or rank 0 where its variables say so."""
    store, _, _ = next(iter(rendezvous("env://", world.rank, world.size, timeout=_MEETING)))
    return store


def own_store(path: Path, world: World) -> Store:
    """Of ranks that rank 0 started on its host: a file that is theirs alone."""
    store = FileStore(str(path), world.size)
    store.set_timeout(_MEETING)
    return store


def arrive(store: Store, rank: int) -> None:
    """Say that the rank is there, and wait until all are. Raises RuntimeError where rank 0 never comes."""
    store.set(f"rft/here/{rank}", "1")
    store.wait([_BEGIN], _MEETING)


def begin(store: Store) -> None:
    """Let all that have arrived join the group."""
    store.set(_BEGIN, "1")


def missing(store: Store, size: int) -> list[int]:
    """The ranks that have not arrived."""
    return [rank for rank in range(1, size) if not store.check([f"rft/here/{rank}"])]
