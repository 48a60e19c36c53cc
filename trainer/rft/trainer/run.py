"""A run from its directory to its end: every end is written to the event log.

Imports nothing that takes long, so that a run is known to have begun, and can be stopped, within a second.
"""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

from rft.core.dataset import DatasetRow
from rft.core.errors import GpuLost, RftError, RunAborted, RunPaused
from rft.core.events import RunEnded, RunStarted
from rft.core.secret_urls import put_secret_urls
from rft.core.spec import RunSecrets, RunSpec
from rft.rollouts.group import with_job_tools
from rft.run_directory import layout
from rft.run_directory.files import read_spec
from rft.run_directory.lock import locked
from rft.scratch.disk import has_nothing_left, is_disk_full
from rft.trainer.checkpoints import Checkpoints
from rft.trainer.data import BadDataset, read_rows
from rft.trainer.endings import end_with, lost_notice
from rft.trainer.events import EventWriter
from rft.trainer.finished_rollouts import AdapterDigests, FinishedRollouts, forget_finished
from rft.trainer.loop_thread import LoopThread
from rft.trainer.ranks.processes import LaunchedRanks, RankLost, RankProcesses
from rft.trainer.ranks.world import UNFIT, World, hide_launch, launched_world, local_world, use_own_gpu
from rft.trainer.reward_terms import reward_terms
from rft.trainer.run_context import RunContext
from rft.trainer.steps import take_over

log = logging.getLogger(__name__)
LOCK_PATIENCE_S = 20.0


class DiskFull(RftError):
    """There is no room to go on; perhaps not even to say so in the event log."""


def run(run_dir: Path, secrets: RunSecrets, *, on_loaded: Callable[[], None] = lambda: None) -> RunEnded:
    """Train until the last step, a stop or a failure; the event log tells all of it. Raises RunDirectoryBusy.

    Raises DiskFull and OSError where the disk has no room: the run goes on from its last checkpoint once there is some.
    Raises RankLost where one of its ranks has died, GpuLost where its GPU broke: it goes on from there with its next
    launch.
    `on_loaded` is called once everything that trains is imported.
    """
    with locked(run_dir, patience_s=LOCK_PATIENCE_S):
        events = EventWriter(run_dir / layout.EVENTS)
        loop_thread = LoopThread()
        world = launched_world(os.environ)
        launched = None if world is None else LaunchedRanks(world)
        previous = signal.signal(signal.SIGTERM, lambda number, frame: loop_thread.stop())
        try:
            checkpoints = Checkpoints(run_dir)
            ended = _ending(run_dir, secrets, events, loop_thread, checkpoints, launched, on_loaded)
            events.append(ended)
            if ended.outcome in ("succeeded", "failed"):
                forget_finished(run_dir)
            return ended
        finally:
            signal.signal(signal.SIGTERM, previous)
            loop_thread.close()
            events.close()
            if launched is not None and not launched.are_met:
                from rft.trainer.ranks.other_ranks import dismiss

                dismiss(launched)


def _ending(
    run_dir: Path,
    secrets: RunSecrets,
    events: EventWriter,
    loop_thread: LoopThread,
    checkpoints: Checkpoints,
    launched: LaunchedRanks | None,
    on_loaded: Callable[[], None],
) -> RunEnded:
    try:
        _train(run_dir, secrets, events, loop_thread, checkpoints, launched, on_loaded)
    except RunAborted as aborted:
        log.info("stopped: %s", aborted)
        return RunEnded(outcome="stopped", best_step=checkpoints.best_step)
    except Exception as error:
        if loop_thread.is_stopped:  # Whatever broke while everything was being taken down is no failure of the run.
            log.info("stopped while: %s", error)
            return RunEnded(outcome="stopped", best_step=checkpoints.best_step)
        if isinstance(error, RankLost):
            events.append(lost_notice(error))
        if isinstance(error, RankLost | GpuLost):
            raise
        # What a customer's server says of its own disk may stand in an error of ours.
        if has_nothing_left(run_dir) or (not isinstance(error, RftError) and is_disk_full(error)):
            raise DiskFull(str(error)) from error
        log.exception("the run cannot go on")
        return end_with(error, checkpoints.best_step)
    return RunEnded(outcome="succeeded", best_step=checkpoints.best_step)


def _train(
    run_dir: Path,
    secrets: RunSecrets,
    events: EventWriter,
    loop_thread: LoopThread,
    checkpoints: Checkpoints,
    launched: LaunchedRanks | None,
    on_loaded: Callable[[], None],
) -> None:
    """Say that the run has begun and judge its directory; then import what trains, which takes many seconds."""
    spec = read_spec(run_dir)
    resumed = take_over(events, checkpoints)
    finished = FinishedRollouts(
        run_dir, events, AdapterDigests(checkpoints.path_of), terms=reward_terms(spec), resumed=resumed
    )
    events.append(
        RunStarted(
            resumed_from_step=resumed,
            total_steps=spec.hyperparameters.steps,
            pid=os.getpid(),
            kept=finished.kept,
        )
    )
    finished.tell_untold()
    if resumed == spec.hyperparameters.steps and not spec.measures_best:
        return
    train = with_job_tools(read_rows(run_dir / layout.TRAIN_ROWS), spec.tools)
    valid, test = (with_job_tools(rows, spec.tools) for rows in (valid_rows(run_dir), _test_rows(run_dir)))
    if not train:
        raise BadDataset(f"{layout.TRAIN_ROWS} holds no rows", "training_file")
    loop_thread.check()
    world, ranks = _open_ranks(spec, launched)  # First: they import what we do, meanwhile.
    try:
        do_train = _imported(loop_thread)
        on_loaded()
        loop_thread.check()
        tools, grader = put_secret_urls(spec.tools, spec.grader, secrets)
        spec = spec.model_copy(update={"tools": tools, "grader": grader})
        context = RunContext(
            run_dir, spec, secrets, train, valid, test, events, loop_thread, checkpoints, resumed, finished,
            world, ranks,
        )  # fmt: skip
        do_train(context)
    finally:
        if isinstance(ranks, RankProcesses):
            ranks.close()
        finished.close()


def _open_ranks(spec: RunSpec, launched: LaunchedRanks | None) -> tuple[World, RankProcesses | LaunchedRanks | None]:
    """Of how many ranks we are rank 0; with the others, whom we start where nobody else has. Raises RunPaused."""
    if launched is not None and spec.devices is not None:
        raise RunPaused(
            UNFIT,
            f"RFT_DEVICES is set, and the trainer was started as one of {launched.world.size} ranks"
            " (RFT_TRAINER_COMMAND): either the trainer starts the ranks of its host, or torchrun those of all hosts."
            " Unset one of the two, restart the workers and resume the job.",
        )
    world = local_world(spec.devices) if launched is None else launched.world
    processes = None
    if spec.devices is not None and world.size > 1:
        processes = RankProcesses(world, spec.devices)
    hide_launch(os.environ)
    use_own_gpu(os.environ, world, spec.devices)
    return world, processes or launched


def _imported(loop_thread: LoopThread) -> Callable[[RunContext], None]:
    """What trains. Raises RunAborted at once when told to stop: there is nothing yet that needs to be put away."""

    def stop(number: int, frame: object) -> None:
        loop_thread.stop()
        loop_thread.check()

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        from rft.trainer.training import train
    finally:
        signal.signal(signal.SIGTERM, previous)
    return train


def valid_rows(run_dir: Path) -> list[DatasetRow]:
    """None where the order has no validation file. Raises BadDataset."""
    path = run_dir / layout.VALID_ROWS
    return read_rows(path, param="validation_file") if path.exists() else []


def _test_rows(run_dir: Path) -> list[DatasetRow]:
    path = run_dir / layout.TEST_ROWS
    return read_rows(path, param="test_file") if path.exists() else []
