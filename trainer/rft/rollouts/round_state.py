"""A round of rollouts: all groups run at once, and again where a hold has to wait for an endpoint."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from types import MappingProxyType

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade, total_usage
from rft.core.rollout import Rollout
from rft.grader_gateway.grader import GroupGrader
from rft.rollouts.failure_actions import FailureAction, action_for
from rft.rollouts.gather_or_cancel import gather_or_cancel
from rft.rollouts.group_state import GroupSlot, GroupState, is_excluded
from rft.rollouts.hold import RoundHold, UnrecoverableRound, failing_endpoint_of, trial_waits
from rft.rollouts.loop import PendingGrade
from rft.rollouts.missing_tools import failed_at, has_answer_of, missing_tools
from rft.rollouts.replacements import Replacements
from rft.rollouts.rollout_executor import InProcessExecutor
from rft.rollouts.setup import RolloutSetup

log = logging.getLogger(__name__)

_REFUSALS_BORNE = 3
"""Trials in which a grader answers and refuses, before a conversation is begun anew: it may have lost all of them."""

OnRollout = Callable[[Rollout, bool], None]
"""Called as each rollout ends, with whether it is replaced. An exception stops the step."""


@dataclass(frozen=True, slots=True)
class _Work:
    """Slots of one group that are filled together."""

    group: GroupState
    slots: Sequence[GroupSlot]


class RoundState:
    """All groups of one round."""

    def __init__(
        self,
        groups: Sequence[GroupState],
        setup: RolloutSetup,
        replacements: Replacements,
        on_rollout: OnRollout,
        *,
        is_trained_on: bool,
        others: Sequence[Rollout] = (),
    ) -> None:
        """`is_trained_on`: what is left of a round of which too much failed must not be used.

        `others`: rollouts of the same step that have ended. Too much is a share of all of them: a few further rows are
        no round that could be judged for itself.
        """
        self._groups, self._setup, self._replacements, self._on_rollout = groups, setup, replacements, on_rollout
        self._is_trained_on = is_trained_on
        self._executor = setup.executor or InProcessExecutor()
        self._slots = list(chain.from_iterable(group.slots for group in groups))
        self._others = others
        self._others_failures = [
            rollout.outcome for rollout in others if is_excluded(rollout) and isinstance(rollout.outcome, Failure)
        ]

    async def fill(self, hold: RoundHold | None) -> None:
        """Fill every slot that is empty; `hold` is the round's, where it may wait.

        Raises ExceptionGroup when `on_rollout` does, UnrecoverableRound when waiting cannot help.
        """
        await gather_or_cancel(
            self._fill(work)
            for group in self._groups
            for work in self._works(group, [slot for slot in group.slots if slot.rollout is None])
        )
        if hold is not None:
            await self._until_usable(hold)
        self.settle()

    def settle(self) -> None:
        """Grade nothing again: what still lacks its grade has failed."""
        for slot in self._slots:
            if slot.pending is not None and slot.pending.failure is not None:
                self._end(slot, slot.pending.give_up())

    def abandon(self) -> None:
        """The round was given up; nothing to do where it ended."""
        for slot in self._slots:
            if slot.pending is not None:
                slot.pending.abandon()
                slot.pending = None

    def _works(self, group: GroupState, slots: Sequence[GroupSlot]) -> Iterator[_Work]:
        """A grader of whole groups needs their rollouts together; otherwise each slot is filled alone."""
        if self._setup.group_grader is None:
            yield from (_Work(group, [slot]) for slot in slots)
        elif slots:
            yield _Work(group, slots)

    async def _fill(self, work: _Work, *, is_again: bool = False) -> None:
        if is_again:
            self._clear(work.slots)
        if self._setup.group_grader is not None:
            await self._fill_together(work, self._setup.group_grader, may_replace=not is_again)
            return
        for slot in work.slots:
            while self._take(slot, await self._one(work.group.row, slot), may_replace=not is_again):
                pass

    async def _one(self, row: DatasetRow, slot: GroupSlot) -> PendingGrade | Rollout:
        if slot.pending is not None:
            return await slot.pending.grade_again()
        return await self._executor.run(row, slot.key, self._setup, is_grading=True)

    def _clear(self, slots: Sequence[GroupSlot]) -> None:
        """Empty the slots for replacements; the rollouts they held count as replaced."""
        for slot in slots:
            if slot.rollout is not None:
                self._replacements.replaced.append(slot.rollout)
                slot.make_room(slot.rollout)

    def _take(self, slot: GroupSlot, ended: PendingGrade | Rollout, *, may_replace: bool) -> bool:
        """Put an ended rollout into its slot; True when a replacement, or another grading, follows at once."""
        if isinstance(ended, PendingGrade):
            slot.pending = ended
            if ended.failure is None:
                return False
            if may_replace and not slot.is_graded_again:
                slot.is_graded_again = self._replacements.grants(ended.failure)
                if slot.is_graded_again:
                    return True
            if self._setup.hold is None:  # Not graded again later: told as it ends, and not with the round.
                self._end(slot, ended.give_up())
            return False
        is_replaced = may_replace and isinstance(ended.outcome, Failure) and self._replacements.grants(ended.outcome)
        self._end(slot, ended, is_replaced=is_replaced)
        return is_replaced

    def _end(self, slot: GroupSlot, rollout: Rollout, *, is_replaced: bool = False) -> None:
        slot.pending = None
        if is_replaced:
            self._replacements.replaced.append(rollout)
            slot.make_room(rollout)
        else:
            slot.rollout = rollout
        self._on_rollout(rollout, is_replaced)

    async def _fill_together(self, work: _Work, grader: GroupGrader, *, may_replace: bool) -> None:
        """All rollouts run at once; one verdict on the whole group follows when the last has ended."""

        async def converse(slot: GroupSlot) -> None:
            while slot.pending is None:
                ended = await self._executor.run(work.group.row, slot.key, self._setup, is_grading=False)
                if not self._take(slot, ended, may_replace=may_replace):
                    return

        await gather_or_cancel(converse(slot) for slot in work.slots)
        ungraded = [(slot, slot.pending) for slot in work.slots if slot.pending is not None]
        if ungraded:
            await self._judge(work.group, ungraded, grader)

    async def _judge(
        self, group: GroupState, ungraded: Sequence[tuple[GroupSlot, PendingGrade]], grader: GroupGrader
    ) -> None:
        """One verdict on the whole group, in the place of a former one: scores of two cannot be compared."""
        graded = [(slot, slot.rollout) for slot in group.slots if slot.rollout and slot.rollout.reward is not None]
        before_s = self._setup.clock()
        verdict = await self._rank(group, [each for _, each in ungraded], [each for _, each in graded], grader)
        grading_s = self._setup.clock() - before_s
        if isinstance(verdict, Failure):
            outcomes: Sequence[Grade | Failure] = verdict.shared_by(len(ungraded))
        else:
            outcomes = verdict[: len(ungraded)]
            # Before the others: whoever reads what a killed process told of a whole group finds one verdict.
            for (slot, rollout), grade in zip(graded, verdict[len(ungraded) :], strict=True):
                self._end(slot, _graded_anew(rollout, grade))
        for (slot, pending), outcome in zip(ungraded, outcomes, strict=True):
            self._take(slot, pending.graded(outcome, grading_s=grading_s), may_replace=False)

    async def _rank(
        self, group: GroupState, ended: Sequence[PendingGrade], graded: Sequence[Rollout], grader: GroupGrader
    ) -> Sequence[Grade] | Failure:
        """A grade for each that ended, then for each that a former verdict graded."""
        traces = [*(one.trace for one in ended), *(self._trace_of(group.row, rollout) for rollout in graded)]
        trace_ids = [*(one.trace_id for one in ended), *(rollout.trace_id for rollout in graded)]
        try:
            grades = await grader.rank(traces, item=group.row.item, trace_ids=trace_ids)
        except Exception as error:
            log.exception("the verdict on row %d broke on an exception of ours", group.row.index)
            grades = _our_failure(f"{type(error).__name__}: {str(error)[:300]}")
        if not isinstance(grades, Failure) and len(grades) != len(traces):
            grades = _our_failure(f"{len(grades)} grades for {len(traces)} rollouts")
        return grades

    def _trace_of(self, row: DatasetRow, rollout: Rollout) -> FinishedTrace:
        return FinishedTrace.of(row, rollout.messages, rollout.stop_reason, model=self._setup.model_name)

    async def _until_usable(self, hold: RoundHold) -> None:
        """Hold the run until few enough rollouts lack a grade because of an endpoint; graded ones stay as they are,
        but for those that a tool which is not there answered and those of a group that is ranked again.

        Raises UnrecoverableRound when too many lack it, and none of them because of an endpoint that may recover.
        """
        waits, trials = trial_waits(hold.rule), count()
        while True:
            rollouts = chain(self._others, self._rollouts(self._slots))
            missing = missing_tools(rollouts, bearable=self._bearable(hold))
            self._fail(self._slots, missing)
            excluded = [slot for slot in self._slots if slot.is_excluded]
            is_bearable = len(excluded) + len(self._others_failures) <= self._bearable(hold)
            # Where only rollouts that we lost had met a tool that is not there, there is nothing to wait for.
            is_missing = bool(missing) and any(slot.has_met_missing_tool for slot in excluded)
            if is_bearable and not is_missing:
                if not self._works_waiting() or not await hold.others_recovered():
                    return
                # What failed in an outage that another round waits for is no loss to be borne.
                await gather_or_cancel(self._fill(work, is_again=True) for work in self._works_waiting())
                continue
            failures = [slot.failure for slot in excluded if slot.failure is not None]
            if not any(slot.is_waiting for slot in excluded):
                if not failures or not self._is_trained_on:
                    return
                raise UnrecoverableRound([*failures, *self._others_failures], rollouts=self._rollouts_of_step)
            waiting = [
                failure for failure in (*failures, *self._others_failures) if action_for(failure) is FailureAction.WAIT
            ]
            hold.begin_trials(failing_endpoint_of(waiting, rollouts=self._rollouts_of_step))
            are_lost = await self._recover(waits, trials, missing)
            hold.end_trials()
            await gather_or_cancel(self._fill(work, is_again=True) for work in self._works_waiting())
            if are_lost and self._give_up(self._slots):
                await gather_or_cancel(self._fill(work, is_again=True) for work in self._works_waiting())

    def _bearable(self, hold: RoundHold) -> float:
        return hold.rule.excluded_share * self._rollouts_of_step

    @property
    def _rollouts_of_step(self) -> int:
        return len(self._slots) + len(self._others)

    async def _recover(
        self, waits: Iterator[float], trials: Iterator[int], missing: Mapping[str, Failure] = MappingProxyType({})
    ) -> bool:
        """Try failed rollouts again, one after the other, until one is graded; each trial may be another's turn.

        A tool that is missing lets rollouts be graded, too: those it failed are over when it answers otherwise.
        Whether conversations are lost: one was graded that was begun anew in place of one that is refused its grade.
        """
        refusals = 0
        while works := self._works_waiting():
            await asyncio.sleep(next(waits))
            trial = works[next(trials) % len(works)]
            has_met_missing = any(slot.has_met_missing_tool for slot in trial.slots)
            await self._fill(trial, is_again=True)
            refusals += any(slot.is_refused_a_grade for slot in trial.slots)
            is_anew = refusals == _REFUSALS_BORNE and self._give_up(trial.slots)
            if is_anew:
                refusals = 0
                await self._fill(trial, is_again=True)
            tried = list(self._rollouts(trial.slots))
            if has_met_missing and any(has_answer_of(rollout, missing) for rollout in tried):
                return False
            self._fail(trial.slots, missing)
            if not has_met_missing and any(rollout.reward is not None for rollout in self._rollouts(trial.slots)):
                return is_anew
        return False

    def _give_up(self, slots: Sequence[GroupSlot]) -> bool:
        """End conversations that are refused their grade, so that others begin in their place; whether there were any.

        A judge of whole groups keeps nothing of them.
        """
        if self._setup.group_grader is not None:
            return False
        refused = [(slot, slot.pending) for slot in slots if slot.pending is not None and slot.is_refused_a_grade]
        for slot, pending in refused:
            self._end(slot, pending.give_up())
        return bool(refused)

    def _fail(self, slots: Sequence[GroupSlot], missing: Mapping[str, Failure]) -> None:
        """What a missing tool answered has no grade, whatever was told of it before."""
        for slot in slots:
            failed = None if slot.rollout is None else failed_at(slot.rollout, missing)
            if failed is not None:
                self._end(slot, failed)

    def _rollouts(self, slots: Sequence[GroupSlot]) -> Iterator[Rollout]:
        yield from (slot.rollout for slot in slots if slot.rollout is not None)

    def _works_waiting(self) -> list[_Work]:
        return [
            work
            for group in self._groups
            for work in self._works(group, [slot for slot in group.slots if slot.is_waiting])
        ]


def _graded_anew(rollout: Rollout, grade: Grade) -> Rollout:
    """With the verdict that counts now; what the former one cost stays told."""
    usage = total_usage((rollout.outcome.usage, grade.usage))
    return replace(rollout, outcome=grade.model_copy(update={"usage": usage}))


def _our_failure(message: str) -> Failure:
    return Failure(
        stage=Stage.PLATFORM,
        code=FailureCode.INTERNAL_ERROR,
        message=f"The platform failed, not your endpoint: {message}",
    )
