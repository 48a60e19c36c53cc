"""The seats of a round of rollouts: filled all at once, and again where a hold has to wait for an endpoint.

A conversation that only lacks its grade keeps its seat: what comes later grades it again and never runs it again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from types import MappingProxyType

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.grade import Grade
from rft.core.group import Group
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.at_once import all_at_once
from rft.rollouts.conversation import finished_trace
from rft.rollouts.gateways import FinishedTrace, GroupGrader
from rft.rollouts.group import next_attempt
from rft.rollouts.hold import Hold, RoundHopeless, culprit_of, trial_waits
from rft.rollouts.loop import Ungraded, run_and_grade, run_conversation
from rft.rollouts.missing_tools import failed_at, has_answer_of, missing_tools
from rft.rollouts.remedies import Remedy, remedy_of
from rft.rollouts.replacements import Replacements
from rft.rollouts.setup import RolloutSetup

log = logging.getLogger(__name__)

OnRollout = Callable[[Rollout, bool], None]
"""Called as each rollout ends, with whether another attempt takes its place. An exception stops the step."""


@dataclass(slots=True, eq=False)
class Seat:
    """One place in a group, and who sits there."""

    key: RolloutKey
    rollout: Rollout | None = None
    """The last attempt; None before the first one ended."""
    kept: Ungraded | None = None
    """An attempt whose conversation ended, and whose grade is still missing."""
    is_graded_again: bool = False
    """It was already granted another grading in place of another attempt."""

    @property
    def failure(self) -> Failure | None:
        """Why the last attempt has no grade."""
        if self.kept is not None:
            return self.kept.failure
        return self.rollout.outcome if self.rollout and isinstance(self.rollout.outcome, Failure) else None

    @property
    def is_excluded(self) -> bool:
        """An endpoint, or the order, kept it from being graded."""
        return self.failure is not None and self.failure.fault is Fault.ENDPOINT

    @property
    def is_waiting(self) -> bool:
        """It failed, and an endpoint that recovers would make the difference."""
        return self.failure is not None and remedy_of(self.failure) is Remedy.WAIT

    @property
    def has_met_missing_tool(self) -> bool:
        """It failed because a tool is not there."""
        return self.failure is not None and self.failure.code is FailureCode.ENDPOINT_NOT_FOUND


@dataclass(frozen=True, slots=True)
class Table:
    """The seats of one row's group, in order."""

    row: DatasetRow
    seats: tuple[Seat, ...]

    @classmethod
    def laid(cls, row: DatasetRow, keys: Sequence[RolloutKey]) -> "Table":
        """Nobody sits yet."""
        return cls(row, tuple(Seat(key) for key in keys))

    def group(self) -> Group:
        """What came of it. Every seat must be taken."""
        return Group(self.row.index, tuple(seat.rollout for seat in self.seats if seat.rollout is not None))


@dataclass(frozen=True, slots=True)
class _Work:
    """Seats of one table that are filled together."""

    table: Table
    seats: Sequence[Seat]


class Tables:
    """All groups of one round."""

    def __init__(
        self,
        tables: Sequence[Table],
        setup: RolloutSetup,
        replacements: Replacements,
        on_rollout: OnRollout,
        *,
        is_trained_on: bool,
    ) -> None:
        """`is_trained_on`: what is left of a round of which too much failed must not be used."""
        self._tables, self._setup, self._replacements, self._on_rollout = tables, setup, replacements, on_rollout
        self._is_trained_on = is_trained_on
        self._seats = list(chain.from_iterable(table.seats for table in tables))

    async def fill(self) -> None:
        """Fill every seat. Raises ExceptionGroup when `on_rollout` does, RoundHopeless when waiting cannot help."""
        await all_at_once(self._fill(work) for table in self._tables for work in self._works(table, table.seats))
        if self._setup.hold is not None:
            await self._until_usable(self._setup.hold)
        self.settle()

    def settle(self) -> None:
        """Nobody is graded again: what still lacks its grade has failed."""
        for seat in self._seats:
            if seat.kept is not None and seat.kept.failure is not None:
                self._end(seat, seat.kept.give_up())

    def abandon(self) -> None:
        """The round was given up; nothing to do where it ended."""
        for seat in self._seats:
            if seat.kept is not None:
                seat.kept.abandon()
                seat.kept = None

    def _works(self, table: Table, seats: Sequence[Seat]) -> Iterator[_Work]:
        """Who judges whole groups needs their rollouts together; otherwise each seat is filled alone."""
        if self._setup.group_grader is None:
            yield from (_Work(table, [seat]) for seat in seats)
        elif seats:
            yield _Work(table, seats)

    async def _fill(self, work: _Work, *, is_again: bool = False) -> None:
        if is_again:
            self._clear(work.seats)
        if self._setup.group_grader is not None:
            await self._fill_together(work, self._setup.group_grader, may_replace=not is_again)
            return
        for seat in work.seats:
            while self._take(seat, await self._one(work.table.row, seat), may_replace=not is_again):
                pass

    async def _one(self, row: DatasetRow, seat: Seat) -> Ungraded | Rollout:
        if seat.kept is not None:
            return await seat.kept.grade_again()
        return await run_and_grade(row, seat.key, self._setup)

    def _clear(self, seats: Sequence[Seat]) -> None:
        """Make room for another attempt; who sat there counts as replaced."""
        for seat in seats:
            if seat.rollout is not None:
                self._replacements.replaced.append(seat.rollout)
                seat.rollout, seat.key = None, next_attempt(seat.key)

    def _take(self, seat: Seat, ended: Ungraded | Rollout, *, may_replace: bool) -> bool:
        """Seat one that ended; True when another attempt, or another grading, follows at once."""
        if isinstance(ended, Ungraded):
            seat.kept = ended
            if ended.failure is None:
                return False
            if may_replace and not seat.is_graded_again:
                seat.is_graded_again = self._replacements.grants(ended.failure)
                if seat.is_graded_again:
                    return True
            if self._setup.hold is None:  # Nobody grades it again later: it is told as it ends, not with the round.
                self._end(seat, ended.give_up())
            return False
        is_replaced = may_replace and isinstance(ended.outcome, Failure) and self._replacements.grants(ended.outcome)
        self._end(seat, ended, is_replaced=is_replaced)
        return is_replaced

    def _end(self, seat: Seat, rollout: Rollout, *, is_replaced: bool = False) -> None:
        seat.kept = None
        if is_replaced:
            self._replacements.replaced.append(rollout)
            seat.key, seat.is_graded_again = next_attempt(seat.key), False
        else:
            seat.rollout = rollout
        self._on_rollout(rollout, is_replaced)

    async def _fill_together(self, work: _Work, grader: GroupGrader, *, may_replace: bool) -> None:
        """All converse at once; one verdict on the whole group follows when the last has ended."""

        async def converse(seat: Seat) -> None:
            while seat.kept is None:
                ended = await run_conversation(work.table.row, seat.key, self._setup)
                if not self._take(seat, ended, may_replace=may_replace):
                    return

        await all_at_once(converse(seat) for seat in work.seats)
        ungraded = [(seat, seat.kept) for seat in work.seats if seat.kept is not None]
        if not ungraded:
            return
        before_s = self._setup.clock()
        outcomes = await self._rank(work.table, [kept for _, kept in ungraded], grader)
        grading_s = self._setup.clock() - before_s
        for (seat, kept), outcome in zip(ungraded, outcomes, strict=True):
            self._take(seat, kept.judged(outcome, grading_s=grading_s), may_replace=False)

    async def _rank(self, table: Table, ended: Sequence[Ungraded], grader: GroupGrader) -> Sequence[Grade | Failure]:
        """An outcome for each that ended; rollouts graded before are shown to the judge, but keep their grade."""
        graded = [seat.rollout for seat in table.seats if seat.rollout is not None and seat.rollout.reward is not None]
        traces = [*(one.trace for one in ended), *(self._trace_of(table.row, rollout) for rollout in graded)]
        trace_ids = [*(one.trace_id for one in ended), *(rollout.trace_id for rollout in graded)]
        try:
            grades = await grader.rank(traces, item=table.row.item, trace_ids=trace_ids)
        except Exception as error:
            log.exception("the verdict on row %d broke on an exception of ours", table.row.index)
            grades = _our_failure(f"{type(error).__name__}: {str(error)[:300]}")
        if not isinstance(grades, Failure) and len(grades) != len(traces):
            grades = _our_failure(f"{len(grades)} grades for {len(traces)} rollouts")
        return grades.shared_by(len(ended)) if isinstance(grades, Failure) else grades[: len(ended)]

    def _trace_of(self, row: DatasetRow, rollout: Rollout) -> FinishedTrace:
        return finished_trace(row, rollout.messages, rollout.stop_reason, model=self._setup.model_name)

    async def _until_usable(self, hold: Hold) -> None:
        """Hold the run until few enough rollouts lack a grade because of an endpoint; graded ones stay as they are,
        but for those that a tool which is not there answered.

        Raises RoundHopeless when too many lack it, and none of them because of an endpoint that may recover.
        """
        waits, trials = trial_waits(hold.rule), count()
        while True:
            missing = missing_tools(self._rollouts(self._seats), bearable=self._bearable(hold))
            self._fail(self._seats, missing)
            excluded = [seat for seat in self._seats if seat.is_excluded]
            if not missing and len(excluded) <= self._bearable(hold):
                return
            waiting = [seat.failure for seat in excluded if seat.failure is not None and seat.is_waiting]
            if not waiting and not self._is_trained_on:
                return
            if not waiting:
                failures = [seat.failure for seat in excluded if seat.failure is not None]
                raise RoundHopeless(failures, rollouts=len(self._seats))
            hold.begin_trials(culprit_of(waiting, rollouts=len(self._seats)))
            await self._recover(waits, trials, missing)
            hold.end_trials()
            await all_at_once(self._fill(work, is_again=True) for work in self._works_waiting())

    def _bearable(self, hold: Hold) -> float:
        return hold.rule.excluded_share * len(self._seats)

    async def _recover(
        self, waits: Iterator[float], trials: Iterator[int], missing: Mapping[str, Failure] = MappingProxyType({})
    ) -> None:
        """Try failed rollouts again, one after the other, until one is graded; each trial may be another's turn.

        A tool that is missing lets rollouts be graded, too: those it failed are over when it answers otherwise.
        """
        while works := self._works_waiting():
            await asyncio.sleep(next(waits))
            trial = works[next(trials) % len(works)]
            has_met_missing = any(seat.has_met_missing_tool for seat in trial.seats)
            await self._fill(trial, is_again=True)
            tried = list(self._rollouts(trial.seats))
            if has_met_missing and any(has_answer_of(rollout, missing) for rollout in tried):
                return
            self._fail(trial.seats, missing)
            if not has_met_missing and any(rollout.reward is not None for rollout in self._rollouts(trial.seats)):
                return

    def _fail(self, seats: Sequence[Seat], missing: Mapping[str, Failure]) -> None:
        """What a missing tool answered has no grade, whatever was told of it before."""
        for seat in seats:
            failed = None if seat.rollout is None else failed_at(seat.rollout, missing)
            if failed is not None:
                self._end(seat, failed)

    def _rollouts(self, seats: Sequence[Seat]) -> Iterator[Rollout]:
        yield from (seat.rollout for seat in seats if seat.rollout is not None)

    def _works_waiting(self) -> list[_Work]:
        return [
            work
            for table in self._tables
            for work in self._works(table, [seat for seat in table.seats if seat.is_waiting])
        ]


def _our_failure(words: str) -> Failure:
    return Failure(
        stage=Stage.PLATFORM,
        code=FailureCode.INTERNAL_ERROR,
        message=f"The platform failed, not your endpoint: {words}",
    )
