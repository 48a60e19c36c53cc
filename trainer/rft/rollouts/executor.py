"""All rollouts of a step at once: no barrier per turn or per group, so a slow tool delays its own rollout only."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from rft.core.dataset import DatasetRow
from rft.core.group import Group
from rft.core.rollout import Rollout, RolloutKey, Split
from rft.rollouts.group import StepRow, group_keys
from rft.rollouts.hold import HoldExpired, RoundHopeless
from rft.rollouts.replacements import Replacements
from rft.rollouts.seats import OnRollout, Table, Tables
from rft.rollouts.setup import RolloutSetup


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
    """Roll out every training row `group_size` times. Cancelling it cancels every rollout.

    Raises HoldExpired, and RoundHopeless where too many failed in a way that waiting does not heal.
    """
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
    return await _round([place.row for place in rows], keys, step, setup, replacements, on_rollout, is_trained_on=True)


async def run_evaluation(
    rows: Sequence[DatasetRow],
    *,
    setup: RolloutSetup,
    job_id: str,
    job_seed: int,
    step: int,
    samples: int,
    on_rollout: OnRollout,
) -> StepRollouts:
    """Roll out every validation row `samples` times. Raises HoldExpired.

    Failed rollouts are excluded, and replaced only where the run is held for them.
    """
    keys = [
        group_keys(
            row.index, job_id=job_id, job_seed=job_seed, split=Split.VALID, step=step, epoch=step, group_size=samples
        )
        for row in rows
    ]
    none = Replacements(rollouts=len(rows) * samples, share=0.0)
    return await _round(rows, keys, step, setup, none, on_rollout, is_trained_on=False)


async def _round(
    rows: Sequence[DatasetRow],
    keys: Sequence[Sequence[RolloutKey]],
    step: int,
    setup: RolloutSetup,
    replacements: Replacements,
    on_rollout: OnRollout,
    *,
    is_trained_on: bool,
) -> StepRollouts:
    tables = [Table.laid(row, row_keys) for row, row_keys in zip(rows, keys, strict=True)]
    round_of_tables = Tables(tables, setup, replacements, on_rollout, is_trained_on=is_trained_on)
    try:
        async with setup.hold.round(step) if setup.hold is not None else nullcontext():
            await round_of_tables.fill()
    except (HoldExpired, RoundHopeless):
        round_of_tables.settle()  # These are told, although nothing is made of them.
        raise
    except ExceptionGroup as errors:
        # Only `on_rollout` can raise here; the caller wants its exception, not our wrapping.
        raise errors.exceptions[0] from errors
    finally:
        round_of_tables.abandon()
    return StepRollouts([table.group() for table in tables], replacements.replaced)
