"""One step: rollouts, update, evaluation if due, checkpoint. Complete as a whole or done again as a whole.

Where rollouts go on beside updates, so does an evaluation: beside the next step's. It is waited for, and its step is
complete, before the next policy is published.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from rft.core.checkpoint import Checkpoint
from rft.core.errors import RunFailed, RunPaused, SamplerError
from rft.core.events import Notice, StepDone
from rft.core.step_record import CheckpointInfo, Optimization, RolloutStats, Timing
from rft.rollouts.executor import StepRollouts
from rft.rollouts.stats import WallShares, wall_shares
from rft.trainer.checkpoints import Checkpoints, PolicyReward, StepRecord, as_ranked, policy_reward
from rft.trainer.data import row_order
from rft.trainer.early_stop import early_stop_notice
from rft.trainer.events import EventWriter
from rft.trainer.importance_gap import ENGINE_MISMATCH, SampledBy, gap_notice, judge_gap
from rft.trainer.rounds import Rounds, StepContext
from rft.trainer.run_health import (
    RunHealth,
    judge_update,
)
from rft.trainer.samples import TrainingRow, training_rows


@dataclass(slots=True)
class _Measured:
    """What a step has shown so far."""

    started_s: float
    epoch: int = 0
    train: RolloutStats | None = None
    sampled: PolicyReward | None = None
    """What its rollouts say of the policy that sampled them."""
    shares: WallShares = field(default_factory=lambda: WallShares(0.0, 0.0, 0.0))
    rollouts_s: float = 0.0
    updated_s: float = 0.0
    """When its update had ended."""


@dataclass(frozen=True, slots=True)
class _Trained:
    """A step whose policy is published, and whose evaluation, if one is due, has begun."""

    step: int
    measured: _Measured
    optimization: Optimization | None
    evaluation: "Future[StepRollouts] | None"
    health: RunHealth
    """Before the evaluation, and before what the next step shows beside it."""
    left_s: float
    """When the run could go on without it."""


class Steps:
    """The steps of one run, in order: `baseline`, then `rollouts` and `finish` for each."""

    def __init__(self, context: StepContext, health: RunHealth) -> None:
        self._context, self._rounds = context, Rounds(context, health)
        wanted = context.spec.hyperparameters
        self._order = row_order(
            rows=context.file_rows,
            batch_size=wanted.batch_size,
            steps=wanted.steps,
            seed=context.spec.seed,
            left_out=context.left_out,
        )
        self._measured = _Measured(context.clock())
        self._under_evaluation: _Trained | None = None
        """The step before this one, as long as its evaluation goes on beside this one."""

    @property
    def are_over(self) -> bool:
        """Whether no step follows: the last one is done, or an evaluation ended the run."""
        latest = self._context.checkpoints.latest
        is_last = latest is not None and latest.step_done.step == self._context.spec.hyperparameters.steps
        return is_last or self._rounds.health.is_over

    def baseline(self, save: Callable[[], Path]) -> None:
        """Step 0: the untrained policy on the validation rows."""
        self._measured = _Measured(self._context.clock())
        self._publish(0, save())
        self._complete(self._trained(0, None))

    def rollouts(self, step: int) -> Sequence[TrainingRow]:
        """Roll out the step's batch; the rows to train on, none where the step must change nothing."""
        context, places = self._context, self._order[step - 1]
        self._measured = measured = _Measured(context.clock(), epoch=places[0].epoch)
        self._begin_ahead(step - 1)
        done = self._rounds.train(step, places)
        measured.rollouts_s = context.clock() - measured.started_s
        measured.train = done.stats
        measured.sampled = policy_reward(done.rollouts, done.stats)
        measured.shares = wall_shares(done.rollouts, measured.rollouts_s)
        is_scaled = context.spec.loss_type != "dr_grpo"
        return training_rows(done.groups, is_scaled=is_scaled) if done.is_trainable else []

    def _begin_ahead(self, version: int) -> None:
        """The rollouts that may be trained although this version, or an earlier one, samples them.

        In the order of their steps, each as soon as it may: paced, so that none of them has to be thrown away.
        """
        wanted = self._context.spec.hyperparameters
        for step in range(version + 1, min(version + 1 + wanted.max_staleness, wanted.steps) + 1):
            self._rounds.begin(step, self._order[step - 1])

    def judge_gap(self, step: int, optimization: Optimization) -> None:
        """Before the update. Raises RunPaused where trainer and sampler differ too much for it, and tells how much."""
        spec, engine = self._context.spec, self._context.engine
        sampled_by = SampledBy(spec.engine, engine.policy_version)
        evidence = judge_gap(optimization, step=step, limit=spec.max_importance_gap, sampled_by=sampled_by)
        if evidence is not None:
            self._context.events.append(evidence)
            self._context.finished.keep_nothing()  # An engine that was mended is to sample all of it again.
            raise RunPaused("importance_gap", evidence.message)

    def finish(self, step: int, adapter_dir: Path, optimization: Optimization) -> None:
        """After the update and with its adapter on disk: evaluate if due, make the checkpoint complete, tell of it."""
        self.complete_evaluation()  # First: its policy is the one that samples.
        if self._rounds.health.is_over:  # The run has ended with that step.
            self._context.checkpoints.discard(step)
            return
        judge_update(optimization, step=step)
        if (notice := gap_notice(optimization, step=step)) is not None:
            self._context.events.append(notice)
        self._publish(step, adapter_dir)
        trained, wanted = self._trained(step, optimization), self._context.spec.hyperparameters
        if trained.evaluation is not None and wanted.max_staleness and step < wanted.steps:
            self._under_evaluation = trained
        else:
            self._complete(trained)

    def complete_evaluation(self) -> None:
        """What is evaluated beside this step is waited for; its own step is complete then. Raises RunFailed, RunPaused.

        Also for a run that cannot go on: what broke is this step alone.
        """
        trained, self._under_evaluation = self._under_evaluation, None
        if trained is not None:
            began_s = self._context.clock()
            self._complete(trained)
            self._measured.started_s += self._context.clock() - began_s  # The other step's record has this time.

    def measure_best(self) -> None:
        """After the last step: the best policy once more, where nothing is chosen. What fails here fails no run."""
        context, best = self._context, self._context.checkpoints.best_step
        if not context.spec.measures_best or not best:
            return  # The untrained policy was measured before the first step.
        try:
            if best != context.engine.policy_version:
                context.loop_thread.call(context.engine.publish(best, context.checkpoints.path_of(best)))
            self._rounds.measure(best, context.test or context.valid)
        except (RunFailed, RunPaused, SamplerError) as error:
            message = f"The best checkpoint, of step {best}, could not be measured once more: {error}"
            context.events.append(Notice(level="warn", message=message, code="not_measured", data={"step": best}))
        context.finished.forget(best)

    def _publish(self, step: int, adapter_dir: Path) -> None:
        """The policy that a step came to is the one that samples."""
        context = self._context
        context.loop_thread.check()
        self._measured.updated_s = context.clock()
        context.loop_thread.call(context.engine.publish(step, adapter_dir))
        try:
            context.on_published(step)
        except RunPaused as paused:
            if paused.code == ENGINE_MISMATCH:
                context.finished.keep_nothing()  # It may have sampled other weights for longer than this step.
            raise
        if context.spec.hyperparameters.max_staleness:
            self._begin_ahead(step)

    def _trained(self, step: int, optimization: Optimization | None) -> _Trained:
        """The step whose policy was published just now."""
        evaluation = self._rounds.begin_evaluation(step) if self._is_evaluation_due(step) else None
        left_s = self._context.clock()
        return _Trained(step, self._measured, optimization, evaluation, self._rounds.health, left_s)

    def _complete(self, trained: _Trained) -> None:
        context, step, measured = self._context, trained.step, trained.measured
        waited_from_s, later = context.clock(), self._rounds.health
        is_beside_next = later is not trained.health
        if is_beside_next:  # The record is of this step alone; what was told of tools meanwhile stays told.
            self._rounds.health = trained.health.model_copy(update={"refusals_told": later.refusals_told})
        valid = None if trained.evaluation is None else self._rounds.evaluate(step, trained.evaluation)
        if step == 0:
            self._rounds.measure(0, context.test)
        rewards = context.checkpoints.policy_rewards_with(measured.sampled)
        checkpoint = as_ranked(step, valid)
        self._judge_course(checkpoint, measured.train)
        max_staleness = 0 if context.valid else context.spec.hyperparameters.max_staleness
        kept = context.checkpoints.kept_with(checkpoint, rewards, max_staleness=max_staleness)
        waited_s = context.clock() - waited_from_s
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
                    training_s=max(0.0, measured.updated_s - measured.started_s - measured.rollouts_s),
                    eval_s=trained.left_s - measured.updated_s + waited_s,
                    full_step_s=trained.left_s - measured.started_s + waited_s,
                ),
                optimization=trained.optimization,
                checkpoint=CheckpointInfo(path=checkpoint.path, kept_steps=kept),
            ),
            health=self._rounds.health,
            policy_rewards=rewards,
        )
        context.events.sync()  # The rollouts the record counts must outlive a power cut if the checkpoint does.
        context.checkpoints.complete(record)
        context.events.append(record.step_done)
        context.events.sync()
        context.finished.forget(step)
        context.checkpoints.prune()
        if is_beside_next:
            self._rounds.health = self._rounds.health.with_next_step(later)

    def _judge_course(self, checkpoint: Checkpoint, train: RolloutStats | None) -> None:
        """Note how the run goes, and end it where the order says so."""
        if not self._context.valid:
            return
        step, rule = checkpoint.step, self._context.spec.early_stop
        health = self._rounds.health.trained(train.reward if train else None)
        if checkpoint.valid_reward is not None and checkpoint.is_evidence:
            health = health.with_evaluation(step, checkpoint.valid_reward)
            notice = None if rule is None else early_stop_notice(rule, health.evaluated)
            if notice is not None and 0 < step < self._context.spec.hyperparameters.steps:
                self._context.events.append(notice)
                health = health.model_copy(update={"is_over": True})
                self._rounds.give_up()
        self._rounds.health = health

    def _is_evaluation_due(self, step: int) -> bool:
        return bool(self._context.valid) and self._context.spec.hyperparameters.is_evaluated(step)


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
