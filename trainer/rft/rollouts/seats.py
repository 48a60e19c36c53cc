"""The seats of a round of rollouts: filled all at once, and again where a hold has to wait for an endpoint."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.group import Group
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.at_once import all_at_once
from rft.rollouts.conversation import finished_trace
from rft.rollouts.gateways import FinishedTrace, GroupGrader
from rft.rollouts.group import next_attempt
from rft.rollouts.hold import Hold, culprit_of, is_worth_waiting, trial_waits
from rft.rollouts.loop import Ungraded, run_conversation, run_rollout
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

    @property
    def failure(self) -> Failure | None:
        """Why the last attempt has no grade."""
        return self.rollout.outcome if self.rollout and isinstance(self.rollout.outcome, Failure) else None

    @property
    def is_waiting(self) -> bool:
        """It failed, and an endpoint that recovers would make the difference."""
        return self.failure is not None and is_worth_waiting(self.failure)


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
        self, tables: Sequence[Table], setup: RolloutSetup, replacements: Replacements, on_rollout: OnRollout
    ) -> None:
        self._tables, self._setup, self._replacements, self._on_rollout = tables, setup, replacements, on_rollout
        self._seats = list(chain.from_iterable(table.seats for table in tables))

    async def fill(self) -> None:
        """Fill every seat. Raises ExceptionGroup when `on_rollout` does."""
        await all_at_once(self._fill(work) for table in self._tables for work in self._works(table, table.seats))
        if self._setup.hold is not None:
            await self._until_usable(self._setup.hold)

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
            while True:
                rollout = await run_rollout(work.table.row, seat.key, self._setup)
                if not self._take(seat, rollout, may_replace=not is_again):
                    break

    def _clear(self, seats: Sequence[Seat]) -> None:
        """Make room for another attempt; who sat there counts as replaced."""
        for seat in seats:
            if seat.rollout is not None:
                self._replacements.replaced.append(seat.rollout)
            seat.key = next_attempt(seat.key)

    def _take(self, seat: Seat, rollout: Rollout, *, may_replace: bool) -> bool:
        """Seat an ended rollout; True when another attempt takes its place at once."""
        is_replaced = may_replace and self._replacements.take(rollout)
        self._on_rollout(rollout, is_replaced)
        if is_replaced:
            seat.key = next_attempt(seat.key)
        else:
            seat.rollout = rollout
        return is_replaced

    async def _fill_together(self, work: _Work, grader: GroupGrader, *, may_replace: bool) -> None:
        """All converse at once; one verdict on the whole group follows when the last has ended."""
        ungraded: list[tuple[Seat, Ungraded]] = []

        async def converse(seat: Seat) -> None:
            while True:
                ended = await run_conversation(work.table.row, seat.key, self._setup)
                if isinstance(ended, Ungraded):
                    ungraded.append((seat, ended))
                    return
                if not self._take(seat, ended, may_replace=may_replace):
                    return

        try:
            await all_at_once(converse(seat) for seat in work.seats)
            ungraded.sort(key=lambda pair: pair[0].key.index)
            if not ungraded:
                return
            before_s = self._setup.clock()
            outcomes = await self._rank(work.table, [ended for _, ended in ungraded], grader)
            grading_s = self._setup.clock() - before_s
            for outcome in outcomes:
                seat, ended = ungraded.pop(0)
                self._take(seat, ended.grade(outcome, grading_s=grading_s), may_replace=False)
        finally:
            for _, ended in ungraded:  # Given up before their verdict.
                ended.abandon()

    async def _rank(self, table: Table, ended: Sequence[Ungraded], grader: GroupGrader) -> Sequence[Grade | Failure]:
        """An outcome for each that ended; rollouts graded before are shown to the judge, but keep their grade."""
        kept = [seat.rollout for seat in table.seats if seat.rollout is not None and seat.rollout.reward is not None]
        traces = [*(one.trace for one in ended), *(self._trace_of(table.row, rollout) for rollout in kept)]
        trace_ids = [*(one.trace_id for one in ended), *(rollout.key.trace_id for rollout in kept)]
        try:
            grades = await grader.rank(traces, item=table.row.item, trace_ids=trace_ids)
        except Exception as error:
            log.exception("the verdict on row %d broke on an exception of ours", table.row.index)
            grades = _our_failure(f"{type(error).__name__}: {str(error)[:300]}")
        if not isinstance(grades, Failure) and len(grades) != len(traces):
            grades = _our_failure(f"{len(grades)} grades for {len(traces)} rollouts")
        return [grades] * len(ended) if isinstance(grades, Failure) else grades[: len(ended)]

    def _trace_of(self, row: DatasetRow, rollout: Rollout) -> FinishedTrace:
        return finished_trace(row, rollout.messages, rollout.stop_reason, model=self._setup.model_name)

    async def _until_usable(self, hold: Hold) -> None:
        """Hold the run until few enough rollouts lack a grade because of an endpoint; graded ones stay as they are."""
        waits, trials = trial_waits(hold.rule), count()
        while len(waiting := self._waiting()) > hold.rule.excluded_share * len(self._seats):
            failures = [seat.failure for seat in waiting if seat.failure is not None]
            hold.begin_trials(culprit_of(failures, rollouts=len(self._seats)))
            await self._recover(waits, trials)
            hold.end_trials()
            await all_at_once(self._fill(work, is_again=True) for work in self._works_waiting())

    async def _recover(self, waits: Iterator[float], trials: Iterator[int]) -> None:
        """Try failed rollouts again, one after the other, until one is graded; each trial may be another's turn."""
        while works := self._works_waiting():
            await asyncio.sleep(next(waits))
            trial = works[next(trials) % len(works)]
            await self._fill(trial, is_again=True)
            if any(seat.rollout is not None and seat.rollout.reward is not None for seat in trial.seats):
                return

    def _waiting(self) -> list[Seat]:
        return [seat for seat in self._seats if seat.is_waiting]

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
