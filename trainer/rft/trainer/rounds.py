"""A step's rounds of rollouts: run, told and judged. For training, for an evaluation, for a measurement."""

import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypedDict

from rft.core.dataset import DatasetRow
from rft.core.errors import RunPaused
from rft.core.events import Notice, PolicyMeasured
from rft.core.group import Group
from rft.core.rollout import Rollout, Split
from rft.core.spec import RunSpec
from rft.core.step_record import RolloutStats
from rft.engines.base import Engine
from rft.rollouts.executor import StepRollouts, run_evaluation, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.hold import HoldExpired, UnrecoverableRound
from rft.rollouts.kept_rollouts import KeptRollouts
from rft.rollouts.lost_rounds import RoundLost
from rft.rollouts.refills import with_refills
from rft.rollouts.round_state import OnRollout
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.stats import rollout_stats, to_rollout_done
from rft.trainer.checkpoints import Checkpoints
from rft.trainer.data import RowPlace, spare_rows
from rft.trainer.events import EventWriter
from rft.trainer.finished_rollouts import FinishedRollouts
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
    judge_unjudged,
    order_at_fault,
    platform_failure_notice,
)
from rft.trainer.token_log import TokenLog


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
    finished: FinishedRollouts
    on_published: Callable[[int], None] = lambda version: None
    """Told which version the engine samples from now; may raise."""
    left_out: frozenset[int] = frozenset()
    """Indices of the training file's other rows, which the policy cannot answer."""
    token_log: TokenLog | None = None
    """None: nobody is told of tokens."""
    clock: Callable[[], float] = time.monotonic

    @property
    def file_rows(self) -> int:
        """How many rows the training file has."""
        return len(self.train) + len(self.left_out)


class _Round(TypedDict):
    """What all rounds of a step share, as `run_step` takes it."""

    setup: RolloutSetup
    job_id: str
    job_seed: int
    step: int
    group_size: int
    replacement_share: float
    on_rollout: OnRollout
    kept: KeptRollouts


@dataclass(frozen=True, slots=True)
class TrainedRound:
    """The rollouts of a training step."""

    groups: Sequence[Group]
    rollouts: Sequence[Rollout]
    """All of them, replaced and resampled ones included."""
    stats: RolloutStats
    is_trainable: bool


class Rounds:
    """The rounds of one run."""

    def __init__(self, context: StepContext, health: RunHealth) -> None:
        self._context, self._train = context, {row.index: row for row in context.train}
        self.health = health
        """What the rounds so far had in common."""
        self._under_way: dict[int, Future[StepRollouts]] = {}
        """Rollouts of training steps that were begun and not taken yet, by step."""

    def begin(self, step: int, places: Sequence[RowPlace]) -> None:
        """The rollouts of a training step, unless they were begun already: `train` takes them."""
        if step not in self._under_way:
            rollouts = partial(self._step_rollouts, step, places)
            self._under_way[step] = self._start(step, Split.TRAIN, rollouts)

    def give_up(self) -> None:
        """What was begun and not taken: no step follows that would be trained on it."""
        if self._under_way:
            self._under_way.clear()
            self._context.loop_thread.give_up()

    def train(self, step: int, places: Sequence[RowPlace]) -> TrainedRound:
        """Of the step's batch. Raises RunFailed and RunPaused."""
        wanted = self._context.spec.hyperparameters
        self.begin(step, places)
        done = self._result(self._under_way.pop(step), step, Split.TRAIN)
        counted = rollout_stats(done.all_groups, done.replaced)
        stats = counted.model_copy(update={"resampled_rollouts": done.resampled})
        self._apply(judge_tools(self.health, done.all_groups, step=step))
        self._apply(judge_unjudged(self.health, done.groups, step=step))
        self._tell_lost(done, stats, f"step {step}")
        self._tell_notices(check_code(done.groups, step=step, is_trained_on=True))
        verdict = check_step(self.health, done.groups, step=step, is_last=step == wanted.steps)
        self._apply(verdict)
        return TrainedRound(done.groups, _all_rollouts(done), stats, verdict.is_trainable)

    def begin_evaluation(self, step: int) -> "Future[StepRollouts]":
        """The validation rows under the policy of a step, which is the one that samples now: `evaluate` takes them."""
        return self._begin_evaluation(step, self._context.valid, Split.VALID)

    def evaluate(self, step: int, under_way: "Future[StepRollouts]") -> RolloutStats:
        """What the evaluation of a step came to. Raises RunFailed and RunPaused."""
        done = self._result(under_way, step, Split.VALID)
        self._apply(judge_tools(self.health, done.groups, step=step))
        stats = rollout_stats(done.groups, done.replaced)
        self._tell_lost(done, stats, f"the evaluation of step {step}")
        self._tell_notices(check_code(done.groups, step=step, is_trained_on=False))
        self._apply(check_evaluation(self.health, done.groups, step=step))
        return stats

    def measure(self, step: int, rows: Sequence[DatasetRow]) -> None:
        """Rows that choose nothing, if there are any, under the policy of a step. Raises RunFailed and RunPaused."""
        if not rows:
            return
        done = self._result(self._begin_evaluation(step, rows, Split.TEST), step, Split.TEST)
        stats = rollout_stats(done.groups, done.replaced)
        self._tell_lost(done, stats, f"the measurement of step {step}")
        self._context.events.append(PolicyMeasured(step=step, stats=stats))

    def _begin_evaluation(self, step: int, rows: Sequence[DatasetRow], split: Split) -> "Future[StepRollouts]":
        context = self._context

        def rollouts(kept: KeptRollouts) -> Awaitable[StepRollouts]:
            return run_evaluation(
                rows,
                setup=context.setup,
                job_id=context.spec.job_id,
                job_seed=context.spec.seed,
                step=step,
                samples=context.spec.hyperparameters.eval_samples,
                on_rollout=self._tell,
                split=split,
                kept=kept,
            )

        return self._start(step, split, rollouts)

    async def _step_rollouts(self, step: int, places: Sequence[RowPlace], kept: KeptRollouts) -> StepRollouts:
        context, wanted = self._context, self._context.spec.hyperparameters
        shared = _Round(
            setup=context.setup,
            job_id=context.spec.job_id,
            job_seed=context.spec.seed,
            step=step,
            group_size=wanted.group_size,
            replacement_share=context.spec.replacement_share,
            on_rollout=self._tell,
            kept=kept,
        )
        spare = spare_rows(
            rows=context.file_rows, batch=places, step=step, seed=context.spec.seed, left_out=context.left_out
        )
        return await with_refills(
            await run_step(self._step_rows(places), **shared),
            rounds=wanted.resample_zero_variance,
            spare=self._step_rows(spare),
            failure_share=context.spec.platform_failure_share,
            roll_out=lambda rows, so_far: run_step(rows, **shared, so_far=so_far),
        )

    def _step_rows(self, places: Sequence[RowPlace]) -> list[StepRow]:
        return [StepRow(self._train[place.row_index], place.epoch) for place in places]

    def _start(
        self, step: int, split: Split, rollouts: Callable[[KeptRollouts], Awaitable[StepRollouts]]
    ) -> "Future[StepRollouts]":
        """One round, without the rollouts that an earlier process finished. What it attempts is told under its step."""
        context, version = self._context, self._context.engine.policy_version
        staleness = context.spec.hyperparameters.max_staleness
        oldest = max(0, step - 1 - staleness) if split is Split.TRAIN else version

        async def work() -> StepRollouts:
            finished = context.finished.round(step, split, version, oldest=oldest)
            with context.ledger.step(step), finished as kept:
                return await rollouts(kept)

        return context.loop_thread.start(work())

    def _result(self, under_way: "Future[StepRollouts]", step: int, split: Split) -> StepRollouts:
        """What a round came to.

        Raises RunFailed when it was held for too long, or waiting would not help, and RunPaused when we are at fault.
        """
        try:
            return self._context.loop_thread.wait(under_way)
        except HoldExpired as error:
            raise endpoint_down(error) from error
        except UnrecoverableRound as error:
            raise order_at_fault(error) from error
        except RoundLost as error:
            self._context.finished.forget(step, split)  # What the platform could finish twice is no fair draw.
            raise RunPaused("platform_failure", str(error)) from error

    def _tell(self, rollout: Rollout, was_replaced: bool) -> None:
        if self._context.token_log is not None:
            self._context.token_log.sampled(rollout)  # First: another process tells what is finished, not its tokens.
        self._context.finished.add(rollout, is_replaced=was_replaced)
        self._context.events.append(to_rollout_done(rollout))

    def _tell_lost(self, done: StepRollouts, stats: RolloutStats, what: str) -> None:
        notice = platform_failure_notice(_all_rollouts(done), stats, what=what)
        if notice is not None:
            self._context.events.append(notice)

    def _apply(self, verdict: Verdict) -> None:
        self.health = verdict.health
        self._tell_notices(verdict.notices)

    def _tell_notices(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self._context.events.append(notice)


def _all_rollouts(done: StepRollouts) -> list[Rollout]:
    groups: Sequence[Group] = done.all_groups
    return [*chain.from_iterable(group.rollouts for group in groups), *done.replaced]
