"""All rollouts of a step at once: no barrier per turn or per group, so a slow tool delays its own rollout only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import ceil

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Fault
from rft.core.group import Group
from rft.core.rollout import Rollout, RolloutKey, Split
from rft.rollouts.at_once import all_at_once
from rft.rollouts.group import StepRow, group_keys, next_attempt
from rft.rollouts.loop import RolloutSetup, run_rollout

OnRollout = Callable[[Rollout, bool], None]
"""Called as each rollout ends, with whether another attempt takes its place. An exception stops the step."""


@dataclass(frozen=True, slots=True)
class StepRollouts:
    """What a step's rollouts came to."""

    groups: list[Group]
    """One per row, in order; each holds exactly group_size rollouts, the last attempt of each seat."""
    replaced: list[Rollout]
    """Failed rollouts whose seat another attempt took; excluded, but counted and shown."""


async def run_step(
    rows: Sequence[StepRow],
    *,
    setup: RolloutSetup,
    job_id: str,
    job_seed: int,
    step: int,
    group_size: int,
    replacement_share: float,
    on_rollout: OnRollout,
) -> StepRollouts:
    """Roll out every training row `group_size` times. Cancelling it cancels every rollout."""
    keys = [
        group_keys(
            place.row.index,
            job_id=job_id,
            job_seed=job_seed,
            split=Split.TRAIN,
            step=step,
            epoch=place.epoch,
            group_size=group_size,
        )
        for place in rows
    ]
    replacements = Replacements(rollouts=len(rows) * group_size, share=replacement_share)
    groups = await _run_groups([place.row for place in rows], keys, setup, replacements, on_rollout)
    return StepRollouts(groups, replacements.replaced)


async def run_evaluation(
    rows: Sequence[DatasetRow],
    *,
    setup: RolloutSetup,
    job_id: str,
    job_seed: int,
    step: int,
    samples: int,
    on_rollout: OnRollout,
) -> list[Group]:
    """Roll out every validation row `samples` times. Failed rollouts are not replaced, only excluded."""
    keys = [
        group_keys(
            row.index, job_id=job_id, job_seed=job_seed, split=Split.VALID, step=step, epoch=step, group_size=samples
        )
        for row in rows
    ]
    none = Replacements(rollouts=len(rows) * samples, share=0.0)
    return await _run_groups(rows, keys, setup, none, on_rollout)


@dataclass(slots=True)
class Replacements:
    """How many failed rollouts of a step get another attempt.

    At most `share` of the step's rollouts, and none any more once over half of them failed: an endpoint that is down
    is not hammered with attempts that fail too.
    """

    rollouts: int
    share: float
    failed: int = 0
    replaced: list[Rollout] = field(default_factory=list[Rollout])

    @property
    def limit(self) -> int:
        """Replacements at most; fractions round up, so that a small step may have one."""
        return ceil(self.share * self.rollouts - 1e-9)

    def take(self, rollout: Rollout) -> bool:
        """Count an ended rollout; True when another attempt is granted."""
        if not isinstance(rollout.outcome, Failure):
            return False
        self.failed += 1
        is_granted = (
            is_worth_another_attempt(rollout.outcome)
            and len(self.replaced) < self.limit
            and self.failed * 2 <= self.rollouts
        )
        if is_granted:
            self.replaced.append(rollout)
        return is_granted


def is_worth_another_attempt(failure: Failure) -> bool:
    """Whether chance may decide otherwise next time; our own bugs and refused addresses stay as they are."""
    if failure.fault is Fault.PLATFORM:
        return failure.code is FailureCode.SAMPLER_ERROR
    return failure.code is not FailureCode.BLOCKED_ADDRESS


async def _run_groups(
    rows: Sequence[DatasetRow],
    keys: Sequence[Sequence[RolloutKey]],
    setup: RolloutSetup,
    replacements: Replacements,
    on_rollout: OnRollout,
) -> list[Group]:
    async def seat(row: DatasetRow, key: RolloutKey) -> Rollout:
        while True:
            rollout = await run_rollout(row, key, setup)
            was_replaced = replacements.take(rollout)
            on_rollout(rollout, was_replaced)
            if not was_replaced:
                return rollout
            key = next_attempt(key)

    try:
        done = await all_at_once(seat(row, key) for row, row_keys in zip(rows, keys, strict=True) for key in row_keys)
    except ExceptionGroup as errors:
        # Only `on_rollout` can raise here; the caller wants its exception, not our wrapping.
        raise errors.exceptions[0] from errors
    rollouts = iter(done)
    return [Group(row.index, tuple(islice(rollouts, len(row_keys)))) for row, row_keys in zip(rows, keys, strict=True)]
