"""Which failed rollouts of a step are replaced."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from rft.core.failure import Failure, FailureCode, Fault
from rft.core.rollout import Rollout
from rft.rollouts.kept_rollouts import EndedRollout


@dataclass(slots=True)
class Replacements:
    """How many failed rollouts of a step are replaced, or graded again where only the grade failed.

    At most `share` of the step's rollouts, and none any more once over half of them failed: an endpoint that is down
    is not called by replacements that fail too.
    """

    rollouts: int
    share: float
    failed: int = 0
    replaced: list[Rollout] = field(default_factory=list[Rollout])
    """Failed rollouts that were replaced, those of a hold included."""
    _granted: int = 0

    @property
    def limit(self) -> int:
        """Replacements at most; fractions round up, so that a small step may have one."""
        return ceil(self.share * self.rollouts - 1e-9)

    def grants(self, failure: Failure) -> bool:
        """Count a failed rollout; True when a replacement is granted."""
        self.failed += 1
        is_granted = is_worth_replacing(failure) and self._granted < self.limit and self.failed * 2 <= self.rollouts
        self._granted += is_granted
        return is_granted

    def restore(self, failed: Sequence[EndedRollout]) -> None:
        """Count failed rollouts whose place is taken, of a process before this one."""
        self.failed += len(failed)
        self._granted += sum(ended.is_replaced for ended in failed)
        self.replaced.extend(ended.rollout for ended in failed)


def is_worth_replacing(failure: Failure) -> bool:
    """Whether chance may decide otherwise next time; our own bugs, refused addresses and keys stay as they are."""
    if failure.fault is Fault.PLATFORM:
        return failure.code in (FailureCode.SAMPLER_ERROR, FailureCode.PLATFORM_DEADLINE)
    return failure.code not in (
        FailureCode.BLOCKED_ADDRESS,
        FailureCode.UNAUTHORIZED,
        FailureCode.ENDPOINT_NOT_FOUND,
    )
