"""Changes of a job's status, each checked against the state machine of `core.job` before any statement runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from rft.core.job import TRANSITIONS, JobStatus, advance

UNFINISHED: frozenset[JobStatus] = frozenset(status for status, nexts in TRANSITIONS.items() if nexts)


@dataclass(frozen=True, slots=True)
class Transition:
    """A legal change of status; made by `transition`."""

    expected: tuple[JobStatus, ...]
    """Statuses that a job may have before; a statement changes no job with another one."""
    to: JobStatus

    def values(self) -> dict[str, object]:
        """What a statement calls `expected` and `to`."""
        return {"expected": [str(status) for status in self.expected], "to": str(self.to)}


def transition(expected: Iterable[JobStatus], to: JobStatus) -> Transition:
    """The change from any of `expected` to `to`; a status may also stay what it is.

    Raises IllegalTransition when the machine does not lead from one of them to `to`.
    """
    before = tuple(sorted(set(expected)))
    for status in before:
        if status is not to:
            advance(status, to)
    return Transition(before, to)


def transition_to(to: JobStatus, *, among: Iterable[JobStatus]) -> Transition:
    """The change to `to` from every status of `among` from which the machine leads there. Never raises."""
    return transition((status for status in among if status is to or to in TRANSITIONS[status]), to)
