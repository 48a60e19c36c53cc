"""The slots of one row's group: the last rollout in each, and what became of it.

A conversation that only lacks its grade keeps its slot: it is graded again later and never run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Fault
from rft.core.group import Group
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.failure_actions import FailureAction, action_for
from rft.rollouts.group import replacement_key, same_seed_key
from rft.rollouts.kept_rollouts import KeptRollout
from rft.rollouts.loop import PendingGrade

_REFUSALS = (FailureCode.SERVER_ERROR, FailureCode.REJECTED)


@dataclass(slots=True, eq=False)
class GroupSlot:
    """One slot of a group, and the last rollout in it."""

    key: RolloutKey
    rollout: Rollout | None = None
    """The last rollout; None before the first one ended."""
    pending: PendingGrade | None = None
    """A rollout whose conversation ended, and whose grade is still missing."""
    is_graded_again: bool = False
    """It was already granted another grading instead of a replacement."""

    @classmethod
    def begun(cls, key: RolloutKey, kept: KeptRollout | None) -> "GroupSlot":
        """Filled with what is kept of it, if anything is."""
        return cls(key) if kept is None else cls(kept.rollout.key, kept.rollout)

    @property
    def failure(self) -> Failure | None:
        """Why the last rollout has no grade."""
        if self.pending is not None:
            return self.pending.failure
        return self.rollout.outcome if self.rollout and isinstance(self.rollout.outcome, Failure) else None

    @property
    def is_excluded(self) -> bool:
        """An endpoint, or the order, kept it from being graded."""
        return _is_of_endpoint(self.failure)

    @property
    def is_waiting(self) -> bool:
        """It failed, and an endpoint that recovers would make the difference."""
        return self.failure is not None and action_for(self.failure) is FailureAction.WAIT

    @property
    def is_refused_a_grade(self) -> bool:
        """Its grader answers, and does not grade it: it may have lost what it kept of the conversation."""
        failure = None if self.pending is None else self.pending.failure
        return failure is not None and failure.status is not None and failure.code in _REFUSALS

    def make_room(self, failed: Rollout) -> None:
        """For the rollout that replaces a failed one: the same conversation where an endpoint was at fault."""
        was_waiting = isinstance(failed.outcome, Failure) and action_for(failed.outcome) is FailureAction.WAIT
        self.key = same_seed_key(self.key) if was_waiting else replacement_key(self.key)
        self.rollout, self.is_graded_again = None, False

    @property
    def has_met_missing_tool(self) -> bool:
        """It failed because a tool is not there."""
        return self.failure is not None and self.failure.code is FailureCode.ENDPOINT_NOT_FOUND


@dataclass(frozen=True, slots=True)
class GroupState:
    """The slots of one row's group, in order."""

    row: DatasetRow
    slots: tuple[GroupSlot, ...]

    @classmethod
    def begun(cls, row: DatasetRow, keys: Sequence[RolloutKey], kept: Sequence[KeptRollout | None]) -> "GroupState":
        """What is kept of each slot has ended; in the others no rollout has."""
        return cls(row, tuple(GroupSlot.begun(key, ended) for key, ended in zip(keys, kept, strict=True)))

    def group(self) -> Group:
        """The finished group. Every slot must hold a rollout."""
        return Group(self.row.index, tuple(slot.rollout for slot in self.slots if slot.rollout is not None))


def is_excluded(rollout: Rollout) -> bool:
    """An endpoint, or the order, kept a rollout that has ended from being graded."""
    return isinstance(rollout.outcome, Failure) and _is_of_endpoint(rollout.outcome)


def _is_of_endpoint(failure: Failure | None) -> bool:
    return failure is not None and failure.fault is Fault.ENDPOINT
