"""The other ranks as rank 0 sees them: it hands out rows and the adapter's weights, and takes the gradient in."""

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import NoReturn

import torch
from torch import distributed as dist
from torch import nn
from transformers import PreTrainedModel

from rft.core.errors import GpuLost, RunFailed, RunPaused
from rft.scratch.disk import EXIT_DISK_FULL, is_disk_full
from rft.trainer.ranks.flat import flat_gradient, flat_weights, set_gradient, trained
from rft.trainer.ranks.group import RankGroup, begin, launched_store, missing, own_store
from rft.trainer.ranks.messages import Computed, End, Failed, Pass, Ready, SetUp, Share
from rft.trainer.ranks.processes import EXIT_RANK_LOST, LaunchedRanks, RankLost, RankProcesses, loopback_for_gloo
from rft.trainer.ranks.sharded_base import shard_layers, unreachable
from rft.trainer.ranks.shares import shares
from rft.trainer.samples import TrainingRow
from rft.trainer.step_figures import StepFigures
from rft.trainer.token_budget import is_gpu_lost, is_out_of_memory

log = logging.getLogger(__name__)
_LOOK_S = 0.005
_TELL_S = 5.0
"""How long a process that closed its connections may take to be gone."""
_COME_S = 1800.0
_END_S = 10.0
_LEAVE_S = 60.0
_DISMISSED_S = 120.0


class BrokenPass(Exception):
    """What rank 0 computes broke, and no rank is lost. The message says how."""


class OtherRanks:
    """Ranks 1 to size - 1."""

    def __init__(
        self,
        started: RankProcesses | LaunchedRanks,
        *,
        torch_threads: int,
        come_s: float = _COME_S,
        check: Callable[[], None] = lambda: None,
        on_lost: Callable[[Exception], None] = lambda lost: None,
        on_stuck: Callable[[Exception], int] = lambda lost: EXIT_RANK_LOST,
    ) -> None:
        """Returns once all have come. Raises RankLost, and what `check` raises: it is asked while ranks are waited for.

        `come_s`: how long they may take to come. `on_lost` is called in a thread, at any time, with
        what the run ends with. `on_stuck` is called there with the same where the thread that computes does not hear of
        it: it says what this process ends with, which ends as well where that raises.
        """
        self.world, self._torch_threads = started.world, torch_threads
        self._processes = started if isinstance(started, RankProcesses) else None
        self._check, self._on_lost, self._on_stuck = check, on_lost, on_stuck
        self._layers: dist.ProcessGroup | None = None
        """Where parts of the base model's layers are gathered; None: every rank has all of it."""
        self._is_idle, self._closing = True, threading.Event()
        """Whether all of them wait for what is handed out next; whether they are about to end."""
        if isinstance(started, RankProcesses):
            os.environ.update(loopback_for_gloo())
            store = own_store(started.store, started.world)
        else:
            started.are_met = True
            store = launched_store(started.world)
        deadline_s = time.monotonic() + come_s
        while absent := missing(store, self.world.size):
            self._look()
            if time.monotonic() > deadline_s:
                raise RankLost(f"rank {absent[0]} of {self.world.size} did not come within {come_s:.0f} s")
        begin(store)
        self._group = RankGroup(self.world, store)
        self._group.on_loss(self._tell_lost)

    def set_up(self, order: SetUp) -> None:
        """Begin to load what they compute with. Raises RankLost, RunFailed, RunPaused."""
        self._hand_out([order] * (self.world.size - 1))
        self._layers = None
        if order.settings.is_sharded:
            with self._broken_is_lost():
                self._layers = self._group.for_layers(self._look_for_failure)

    def base_model(self, load: Callable[[], PreTrainedModel]) -> PreTrainedModel:
        """Ours, or our part of it once all others have theirs. Raises as `set_up`."""
        if self._layers is None:
            return load()
        while not self._group.is_turn_to_load():
            self._look_for_failure()
        self._look_for_failure()
        return shard_layers(load(), self._layers)

    def most(self, passes: int) -> int:
        """Of the passes of all ranks, where all make the same number. Raises RankLost."""
        return passes if self._layers is None else self._group.most(passes)

    @contextmanager
    def passing(self) -> Generator[None]:
        """While rank 0 makes one pass through the policy, which needs all ranks where none has the base model whole."""
        if self._layers is None:
            yield
            return
        self._hand_out([Pass()] * (self.world.size - 1))
        with self._broken_pass_is_lost():
            yield
        self._is_idle = True

    def wait_until_ready(self, model: nn.Module) -> None:
        """Until they have the model that we have. Raises RankLost, RunFailed, RunPaused."""
        ours = sum(parameter.numel() for parameter in trained(model))
        for rank, answer in enumerate(self._answers(), start=1):
            if not isinstance(answer, Ready) or answer.parameters != ours:
                raise RunPaused(
                    "rank_differs",
                    f"rank {rank} loaded another model than rank 0: the base model's folder has to hold the same on all"
                    " hosts. Then resume the job.",
                )
        self._is_idle = True

    def hand_out(self, model: nn.Module, rows: Sequence[TrainingRow], known: StepFigures) -> list[TrainingRow]:
        """To each its share of a step's rows, of which there is one at least; what is left for us. Raises RankLost."""
        own, *others = ([rows[i] for i in share] for share in shares([row.tokens for row in rows], self.world.size))
        self._hand_out([Share(tuple(share), known) for share in others])
        with self._broken_is_lost():
            self._group.share(flat_weights(model))
        return own

    def take_in(self, model: nn.Module, figures: StepFigures) -> None:
        """Add their gradients and figures to ours. Raises RankLost, RunFailed, RunPaused."""
        for answer in self._answers():
            assert isinstance(answer, Computed)
            figures.add(answer.figures)
        gradient = flat_gradient(model)
        with self._broken_is_lost():
            self._group.add(gradient)
        self._is_idle = True
        set_gradient(model, gradient)

    @contextmanager
    def computing(self) -> Generator[None]:
        """While all ranks compute, each has its part of the host's threads; otherwise rank 0 has them all."""
        torch.set_num_threads(self.world.threads(self._torch_threads))
        try:
            with nullcontext() if self._layers is None else self._broken_pass_is_lost():
                yield
        finally:
            torch.set_num_threads(self._torch_threads)

    def close(self) -> None:
        """Let them end; those of this host have ended when it returns."""
        self._closing.set()
        if self._is_idle:
            with suppress(RuntimeError):
                self._group.hand_out([End()] * (self.world.size - 1))
        if self._processes is not None:
            self._processes.close(grace_s=_END_S if self._is_idle else 0.0)
        self._group.close(is_broken=not self._is_idle)

    def _hand_out(self, messages: Sequence[object]) -> None:
        self._is_idle = False
        with self._broken_is_lost():
            self._group.hand_out(messages)

    def _answers(self) -> list[Ready | Computed]:
        with self._broken_is_lost():
            while not self._group.are_answered():
                self._look()
            answers = self._group.answers()
        for rank, answer in enumerate(answers, start=1):
            if isinstance(answer, Failed):
                raise self._failed(rank, answer)
        return answers

    def _failed(self, rank: int, answer: Failed) -> RunFailed | RunPaused:
        ends_with = RunPaused if answer.is_ours_to_mend else RunFailed
        return ends_with(answer.code, f"Rank {rank} of {self.world.size}: {answer.message}", answer.param)

    def _look(self) -> None:
        """Wait for a moment. Raises RankLost, and what `check` raises."""
        self._check()
        if self._processes is not None and (how := self._processes.ended()) is not None:
            raise RankLost(how)
        time.sleep(_LOOK_S)

    def _look_for_failure(self) -> None:
        """The same. Raises what a rank told that it cannot, too."""
        if (told := self._group.failure()) is not None:
            raise self._failed(*told)
        self._look()

    @contextmanager
    def _broken_is_lost(self) -> Generator[None]:
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self._is_idle = False
            if self._layers is not None and (told := self._group.failure()) is not None:
                raise self._failed(*told) from error
            self._check()  # It may be known already which rank it was.
            raise self._lost(None, error) from error

    @contextmanager
    def _broken_pass_is_lost(self) -> Generator[None]:
        """A pass of all ranks may also break by our own fault: then every rank of this host lives."""
        with self._broken_is_lost():
            try:
                yield
            except RuntimeError as error:
                if (paused := unreachable(error)) is not None:
                    raise paused from error
                if self._processes is not None and self._processes.ended(within_s=_TELL_S) is None:
                    raise (GpuLost if is_gpu_lost(error) else BrokenPass)(str(error)) from error
                raise

    def _tell_lost(self, rank: int) -> None:
        if self._closing.is_set():
            return
        told = None
        if self._layers is not None:
            with suppress(RuntimeError):  # Where the ranks met may be gone, too.
                told = self._group.failure()
        lost = self._lost(rank) if told is None else self._failed(*told)
        self._on_lost(lost)
        # A pass of all that waits for a GPU's part does not hear that the rank has gone.
        if self._layers is not None and torch.cuda.is_available() and not self._closing.wait(_LEAVE_S):
            self._leave(lost)

    def _leave(self, lost: Exception) -> NoReturn:
        """End this process, whatever telling why comes to: nobody else ends it."""
        status = EXIT_RANK_LOST
        try:
            status = self._on_stuck(lost)
        except Exception as error:
            log.exception("why the run ends could not be told")
            if is_disk_full(error):
                status = EXIT_DISK_FULL
        finally:
            os._exit(status)

    def _lost(self, rank: int | None, error: Exception | None = None) -> RankLost:
        self._is_idle = False
        how = None if self._processes is None else self._processes.ended(within_s=_TELL_S)
        if how is None:
            who = "a rank" if rank is None else f"rank {rank}"
            how = f"{who} of {self.world.size} cannot be reached any more" + (f": {error}" if error else "")
        return RankLost(how)


def dismiss(launched: LaunchedRanks) -> None:
    """Tell ranks that wait for a run which came to nothing that it is over."""
    with suppress(RankLost):
        OtherRanks(launched, torch_threads=1, come_s=_DISMISSED_S).close()
