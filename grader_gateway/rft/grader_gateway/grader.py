"""What every grader offers its callers."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade


class Grader(Protocol):
    """Judges one finished rollout."""

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The verdict, or why there is none. Never raises but for cancellation."""
        ...


class GroupGrader(Protocol):
    """Judges all rollouts of a group at once."""

    async def rank(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> list[Grade] | Failure:
        """One grade per trace, in order, or why the whole group has none. Never raises but for cancellation."""
        ...


@runtime_checkable
class HoldsProcesses(Protocol):
    """A grader with processes of its own, which end with it."""

    async def aclose(self) -> None:
        """End them. The grader grades no more."""
        ...


@runtime_checkable
class HasStandingGrades(Protocol):
    """A grader that calls endpoints also for answers whose grade stands before the call."""

    def standing_grade(self, trace: FinishedTrace) -> Grade | None:
        """The grade of an answer that does not fit `response_format`; None of one that does. Never raises."""
        ...


async def close_grader(grader: Grader | GroupGrader) -> None:
    """Free what a grader holds, if it holds anything."""
    if isinstance(grader, HoldsProcesses):
        await grader.aclose()
