"""One step: rollouts, update, evaluation if due, checkpoint. Complete as a whole or done again as a whole."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypedDict

from rft.core.dataset import DatasetRow
from rft.core.errors import RunFailed, RunPaused
from rft.core.events import CheckpointInfo, Notice, Optimization, PolicyMeasured, RolloutStats, StepDone, Timing
from rft.core.group import Group
from rft.core.rollout import Rollout, Split
from rft.core.spec import RunSpec
from rft.engines.base import Engine
from rft.rollouts.executor import StepRollouts, run_evaluation, run_refill, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.group_state import OnRollout
from rft.rollouts.hold import HoldExpired, UnrecoverableRound
from rft.rollouts.lost_rounds import RoundLost
from rft.rollouts.refills import with_refills
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.stats import WallShares, rollout_stats, to_rollout_done, wall_shares
from rft.trainer.checkpoints import Checkpoints, StepRecord, as_ranked
from rft.trainer.data import RowPlace, row_order, spare_rows
from rft.trainer.events import EventWriter
from rft.trainer.importance_gap import SampledBy, gap_notice, judge_gap
from rft.trainer.ledger import Ledger
from rft.trainer.loop_thread import LoopThread
from rft.trainer.run_health import (
    RunHealth,
    Verdict,
    check_code,
    check_evaluation,
    check_step,
    endpoint_down,
    judge_tools,
    judge_update,
    order_at_fault,
    platform_failure_notice,
)
from rft.trainer.samples import TrainingRow, training_rows


@dataclass(frozen=True, slots=True)
class StepContext:
    """What all steps of a run share."""

    spec: RunSpec
    train: Sequence[DatasetRow]
    valid: Sequence[DatasetRow]
    test: Sequence[DatasetRow]
    setup: RolloutSetup
    engine: Engine
    loop_thread: LoopThread
    events: EventWriter
    checkpoints: Checkpoints
    ledger: Ledger
    on_published: Callable[[int], None] = lambda version: None
    """Told which version the engine samples from now; may raise."""
    clock: Callable[[], float] = time.monotonic


class _Round(TypedDict):
    """What all rounds of a step share, as `run_step` takes it."""

    setup: RolloutSetup
    job_id: str
    job_seed: int
    step: int
    group_size: int
    replacement_share: float
    on_rollout: OnRollout


@dataclass(slots=True)
class _Measured:
    """What a step has shown so far."""

    started_s: float
    epoch: int = 0
    train: RolloutStats | None = None
    shares: WallShares = field(default_factory=lambda: WallShares(0.0, 0.0, 0.0))
    rollouts_s: float = 0.0


class Steps:
    """The steps of one run, in order: `baseline`, then `rollouts` and `finish` for each."""

    def __init__(self, context: StepContext, health: RunHealth) -> None:
        self._context, self._health = context, health
        wanted = context.spec.hyperparameters
        self._order = row_order(
            rows=len(context.train), batch_size=wanted.batch_size, steps=wanted.steps, seed=context.spec.seed
        )
        self._measured = _Measured(context.clock())

    def baseline(self, save: Callable[[], Path]) -> None:
        """Step 0: the untrained policy on the validation rows."""
        self._measured = _Measured(self._context.clock())
        self._complete(0, save(), None)

    def rollouts(self, step: int) -> Sequence[TrainingRow]:
        """Roll out the step's batch; the rows to train on, none where the step must change nothing."""
        context, wanted = self._context, self._context.spec.hyperparameters
        places = self._order[step - 1]
        self._measured = measured = _Measured(context.clock(), epoch=places[0].epoch)
        done = self._roll_out(step, lambda: self._step_rollouts(step, places))
        measured.rollouts_s = context.clock() - measured.started_s
        counted = rollout_stats(done.all_groups, done.replaced)
        measured.train = counted.model_copy(update={"resampled_rollouts": done.resampled})
        measured.shares = wall_shares(_all_rollouts(done), measured.rollouts_s)
        self._apply(judge_tools(self._health, done.all_groups, step=step))
        self._tell_lost(done, measured.train, f"step {step}")
        self._tell_notices(check_code(done.groups, step=step, is_trained_on=True))
        verdict = check_step(self._health, done.groups, step=step, is_last=step == wanted.steps)
        self._apply(verdict)
        is_scaled = context.spec.loss_type != "dr_grpo"
        return training_rows(done.groups, is_scaled=is_scaled) if verdict.is_trainable else []

    async def _step_rollouts(self, step: int, places: Sequence[RowPlace]) -> StepRollouts:
        context, wanted = self._context, self._context.spec.hyperparameters
        shared = _Round(
            setup=context.setup,
            job_id=context.spec.job_id,
            job_seed=context.spec.seed,
            step=step,
            group_size=wanted.group_size,
            replacement_share=context.spec.replacement_share,
            on_rollout=self._tell,
        )
        spare = spare_rows(rows=len(context.train), batch=places, step=step, seed=context.spec.seed)
        return await with_refills(
            await run_step(self._step_rows(places), **shared),
            rounds=wanted.resample_zero_variance,
            spare=self._step_rows(spare),
            failure_share=context.spec.platform_failure_share,
            roll_out=lambda rows: run_refill(rows, **shared),
        )

    def _step_rows(self, places: Sequence[RowPlace]) -> list[StepRow]:
        return [StepRow(self._context.train[place.row_index], place.epoch) for place in places]

    def judge_gap(self, step: int, optimization: Optimization) -> None:
        """Before the update. Raises RunPaused where trainer and sampler differ too much for it, and tells how much."""
        spec, engine = self._context.spec, self._context.engine
        sampled_by = SampledBy(spec.engine, engine.policy_version)
        evidence = judge_gap(optimization, step=step, limit=spec.max_importance_gap, sampled_by=sampled_by)
        if evidence is not None:
            self._context.events.append(evidence)
            raise RunPaused("importance_gap", evidence.message)

    def finish(self, step: int, adapter_dir: Path, optimization: Optimization) -> None:
        """After the update and with its adapter on disk: evaluate if due, make the checkpoint complete, tell of it."""
        judge_update(optimization, step=step)
        if (notice := gap_notice(optimization, step=step)) is not None:
            self._context.events.append(notice)
        self._complete(step, adapter_dir, optimization)

    def measure_best(self) -> None:
        """After the last step: the best policy once more, where nothing is chosen. What fails here fails no run."""
        context, best = self._context, self._context.checkpoints.best_step
        if not context.spec.measures_best or not best:
            return  # The untrained policy was measured before the first step.
        if best != context.engine.policy_version:
            context.loop_thread.call(context.engine.publish(best, context.checkpoints.path_of(best)))
        try:
            self._measure(best, context.test or context.valid)
        except (RunFailed, RunPaused) as error:
            message = f"The best checkpoint, of step {best}, could not be measured once more: {error}"
            context.events.append(Notice(level="warn", message=message, code="not_measured", data={"step": best}))

    def _complete(self, step: int, adapter_dir: Path, optimization: Optimization | None) -> None:
        context, measured = self._context, self._measured
        context.loop_thread.check()
        updated_s = context.clock()
        context.loop_thread.call(context.engine.publish(step, adapter_dir))
        context.on_published(step)
        valid = self._evaluate(step) if self._is_evaluation_due(step) else None
        if step == 0:
            self._measure(0, context.test)
        checkpoint = as_ranked(step, measured.train, valid)
        now_s = context.clock()
        record = StepRecord(
            step_done=StepDone(
                step=step,
                total_steps=context.spec.hyperparameters.steps,
                epoch=measured.epoch,
                train=measured.train,
                valid=valid,
                timing=Timing(
                    sampling_s=measured.shares.sampling_s,
                    tools_s=measured.shares.tools_s,
                    grading_s=measured.shares.grading_s,
                    training_s=max(0.0, updated_s - measured.started_s - measured.rollouts_s),
                    eval_s=now_s - updated_s,
                    full_step_s=now_s - measured.started_s,
                ),
                optimization=optimization,
                checkpoint=CheckpointInfo(path=checkpoint.path, kept_steps=context.checkpoints.kept_with(checkpoint)),
            ),
            health=self._health,
        )
        context.events.sync()  # The rollouts the record counts must outlive a power cut if the checkpoint does.
        context.checkpoints.complete(record)
        context.events.append(record.step_done)
        context.events.sync()
        context.checkpoints.prune()

    def _is_evaluation_due(self, step: int) -> bool:
        wanted = self._context.spec.hyperparameters
        return bool(self._context.valid) and (step % wanted.eval_interval == 0 or step == wanted.steps)

    def _evaluate(self, step: int) -> RolloutStats:
        context = self._context
        done = self._roll_out(
            step,
            lambda: run_evaluation(
                context.valid,
                setup=context.setup,
                job_id=context.spec.job_id,
                job_seed=context.spec.seed,
                step=step,
                samples=context.spec.hyperparameters.eval_samples,
                on_rollout=self._tell,
            ),
        )
        self._apply(judge_tools(self._health, done.groups, step=step))
        stats = rollout_stats(done.groups, done.replaced)
        self._tell_lost(done, stats, f"the evaluation of step {step}")
        self._tell_notices(check_code(done.groups, step=step, is_trained_on=False))
        self._apply(check_evaluation(self._health, done.groups, step=step))
        return stats

    def _measure(self, step: int, rows: Sequence[DatasetRow]) -> None:
        if not rows:
            return
        context = self._context
        done = self._roll_out(
            step,
            lambda: run_evaluation(
                rows,
                setup=context.setup,
                job_id=context.spec.job_id,
                job_seed=context.spec.seed,
                step=step,
                samples=context.spec.hyperparameters.eval_samples,
                on_rollout=self._tell,
                split=Split.TEST,
            ),
        )
        stats = rollout_stats(done.groups, done.replaced)
        self._tell_lost(done, stats, f"the measurement of step {step}")
        context.events.append(PolicyMeasured(step=step, stats=stats))

    def _roll_out(self, step: int, rollouts: Callable[[], Awaitable[StepRollouts]]) -> StepRollouts:
        """One round of rollouts.

        Raises RunFailed when it was held for too long, or waiting would not help, and RunPaused when we are at fault.
        """
        ledger = self._context.ledger

        async def with_ledger() -> StepRollouts:
            ledger.begin(step)
            try:
                return await rollouts()
            finally:
                ledger.flush()

        try:
            return self._context.loop_thread.call(with_ledger())
        except HoldExpired as error:
            raise endpoint_down(error) from error
        except UnrecoverableRound as error:
            raise order_at_fault(error) from error
        except RoundLost as error:
            raise RunPaused("platform_failure", str(error)) from error

    def _tell(self, rollout: Rollout, was_replaced: bool) -> None:
        del was_replaced
        self._context.events.append(to_rollout_done(rollout))

    def _tell_lost(self, done: StepRollouts, stats: RolloutStats, what: str) -> None:
        notice = platform_failure_notice(_all_rollouts(done), stats, what=what)
        if notice is not None:
            self._context.events.append(notice)

    def _apply(self, verdict: Verdict) -> None:
        self._health = verdict.health
        self._tell_notices(verdict.notices)

    def _tell_notices(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self._context.events.append(notice)


def take_over(events: EventWriter, checkpoints: Checkpoints) -> int | None:
    """The step to go on from; None for a fresh start. Makes good for a crash between checkpoint and event."""
    latest = checkpoints.latest
    if latest is None:
        return None
    if latest.step_done.step not in events.completed_steps:
        events.append(latest.step_done)
        events.sync()
    checkpoints.prune()
    return latest.step_done.step


def _all_rollouts(done: StepRollouts) -> list[Rollout]:
    groups: Sequence[Group] = done.all_groups
    return [*chain.from_iterable(group.rollouts for group in groups), *done.replaced]
