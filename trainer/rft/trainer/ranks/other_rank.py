"""What every rank but rank 0 does: load the base model, wait for rows, give back their gradient. Nothing else is here:
no rollouts, no events, no checkpoints, no optimizer. What it computes with comes with each step."""

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage]
from transformers import PreTrainedModel

from rft.core.errors import GpuLost, RunPaused
from rft.engines.base_model import load_base_model
from rft.engines.tokenizer import load_tokenizer
from rft.scratch.folder import ScratchFolder, sweep
from rft.trainer.error_fields import error_fields
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.heap import return_large_blocks
from rft.trainer.ranks.flat import flat_gradient, flat_weights, set_weights, trained
from rft.trainer.ranks.gpus import require_gpu
from rft.trainer.ranks.group import NotAgreed, RankGroup, arrive, launched_store, own_store
from rft.trainer.ranks.messages import Answer, Computed, End, Failed, Pass, Ready, Request, SetUp, Share
from rft.trainer.ranks.sharded_base import shard_layers
from rft.trainer.ranks.world import World
from rft.trainer.token_budget import is_gpu_lost, is_out_of_memory

log = logging.getLogger(__name__)
_FOLDER = "rft-rank-"
_LOOK_S = 0.05


class _LeftInAPass(Exception):
    """Others wait for our part of it: they go on once we are gone, and we have told why."""


def compute_until_end(world: World, store: Path | None) -> None:
    """Ends this process when rank 0 says so or is gone; with status 1, and the reason logged, where it is our fault.

    `store`: where rank 0 said that ranks meet; None: where `torchrun` did.
    """
    return_large_blocks()
    status = 1
    try:
        _compute(world, launched_store(world) if store is None else own_store(store, world))
        status = 0
    except RuntimeError as error:
        # Connections break with these; whatever fails in a step is an answer.
        log.info("rank 0 is gone: %s", error)
        status = 0
    except Exception:
        log.exception("this rank broke")
    finally:
        logging.shutdown()
        os._exit(status)  # Without waiting for threads of connections that nobody answers any more.


def _compute(world: World, store: Store) -> None:
    arrive(store, world.rank)
    group = RankGroup(world, store)
    sweep(_FOLDER)  # This process may be killed at any time.
    folder = ScratchFolder(_FOLDER)
    try:
        _OtherRank(group, folder.path).run()
    finally:
        folder.remove()


class _OtherRank:
    def __init__(self, group: RankGroup, folder: Path) -> None:
        self._group, self._folder = group, folder
        self._trainer: PolicyTrainer | None = None
        self._is_sharded = False

    def run(self) -> None:
        while True:
            request: Request = self._group.receive()
            match request:
                case SetUp():
                    self._begin(request)
                case Share():
                    self._compute(request)
                case Pass():
                    self._make_pass()
                case End():
                    return

    def _begin(self, order: SetUp) -> None:
        answer = _attempted(partial(self._set_up, order))
        if order.settings.is_sharded and isinstance(answer, Failed):
            # Rank 0 hears no answers while it waits for what comes before its own part; then let the others go on.
            self._group.tell_failure(answer)
            self._group.has_loaded()
        self._group.answer(answer)

    def _set_up(self, order: SetUp) -> Answer:
        torch.set_num_threads(self._group.world.threads(order.torch_threads))
        require_gpu(self._group.world, is_needed=order.needs_gpu)
        self._is_sharded = order.settings.is_sharded
        self._trainer = PolicyTrainer(
            self._base_model(order),
            load_tokenizer(order.base_model),
            order.settings,
            output_dir=self._folder,
            source=lambda step: (),
            on_saved=lambda step, path, optimization: None,
            most=self._group.most if self._is_sharded else lambda passes: passes,
        )
        return Ready(sum(parameter.numel() for parameter in trained(self._trainer.policy)))

    def _base_model(self, order: SetUp) -> PreTrainedModel:
        if not self._is_sharded:
            return load_base_model(order.base_model, order.settings.base_dtype)
        layers = self._group.for_layers()
        while not self._group.is_turn_to_load():
            time.sleep(_LOOK_S)
        model = shard_layers(load_base_model(order.base_model, order.settings.base_dtype), layers)
        self._group.has_loaded()
        return model

    def _make_pass(self) -> None:
        assert self._trainer is not None, "rank 0 sets up first"
        with torch.no_grad():
            self._trainer.make_pass(self._trainer.policy)

    def _compute(self, share: Share) -> None:
        assert self._trainer is not None, "rank 0 sets up first"
        trainer, model = self._trainer, self._trainer.policy
        weights = flat_weights(model)
        self._group.share(weights)
        set_weights(model, weights)
        model.zero_grad()

        def computed() -> Answer:
            if share.rows or self._is_sharded:
                trainer.add_gradient(model, share.rows, share.known)
                return Computed(trainer.figures)
            return Computed(share.known)

        answer = _attempted(computed, is_pass_of_all=self._is_sharded)
        if self._is_sharded and isinstance(answer, Failed):
            self._group.tell_failure(answer)
            raise _LeftInAPass
        self._group.answer(answer)
        if isinstance(answer, Computed):
            trainer.give_memory_back()  # First: who needs it waits for the gradient.
            self._group.add(flat_gradient(model))


def _attempted(work: Callable[[], Answer], *, is_pass_of_all: bool = False) -> Answer:
    """What comes of it. Raises RuntimeError in a pass of all ranks, which ends with one where another rank has gone.

    Raises GpuLost: this process ends then, and the run goes on with new ones.
    """
    try:
        return work()
    except Exception as problem:
        if is_gpu_lost(problem):
            raise GpuLost(str(problem)) from problem
        is_memory = is_out_of_memory(problem)
        if is_pass_of_all and isinstance(problem, RuntimeError) and not is_memory:
            raise
        if isinstance(problem, NotAgreed):
            log.info("%s", problem)
        else:
            log.exception("cannot go on")
        code, message, param = error_fields(MemoryError(str(problem)) if is_memory else problem)
        return Failed(code, message, param, is_ours_to_mend=isinstance(problem, RunPaused))
