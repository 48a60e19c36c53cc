"""Rounds of rollouts of which the platform itself lost too many: rolled out anew once, then the run pauses.

What is left of such a round is not used, because what the platform could not finish is no fair draw: where it was slow,
the long conversations are missing.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from rft.core.errors import RftError
from rft.core.failure import Failure, Fault
from rft.core.group import Group
from rft.core.rollout import Rollout


class RoundLost(RftError):
    """The platform lost too many rollouts of a round, and again when it was rolled out anew."""


class LostRollouts:
    """What the platform lost of a round."""

    def __init__(self, groups: Sequence[Group], *, share: float) -> None:
        """`share` of the round's rollouts may be lost; more is too many."""
        rollouts = list(chain.from_iterable(group.rollouts for group in groups))
        self.rollouts = len(rollouts)
        self.failures = [failure for rollout in rollouts if (failure := lost(rollout)) is not None]
        self.is_too_many = len(self.failures) > share * self.rollouts
        self._share = share

    @property
    def by_code(self) -> dict[str, int]:
        """How many ended with each code."""
        return dict(Counter(failure.code.value for failure in self.failures))

    def message(self, what: str) -> str:
        """Of `what`, e.g. `step 3`. Needs at least one failure."""
        return (
            f"the platform could not finish {len(self.failures)} of {self.rollouts} rollouts of {what}, more than the"
            f" {self._share:.0%} that it may lose ({_counts(self.by_code)}), for example: {self.failures[0].message}"
        )


def lost(rollout: Rollout) -> Failure | None:
    """How the platform failed a rollout; None where it did not."""
    outcome = rollout.outcome
    return outcome if isinstance(outcome, Failure) and outcome.fault is Fault.PLATFORM else None


def _counts(by_code: dict[str, int]) -> str:
    return ", ".join(f"{count} x {code}" for code, count in by_code.items())
