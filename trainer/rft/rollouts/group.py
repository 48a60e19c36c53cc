"""Keys of the rollouts of a step, and the group they end up in."""

from dataclasses import dataclass

from rft.core.dataset import DatasetRow
from rft.core.rollout import RolloutKey, Split


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row's place in a step: a batch may reach over the end of an epoch, so each row says its own."""

    row: DatasetRow
    epoch: int


def group_keys(
    row_index: int, *, job_id: str, job_seed: int, split: Split, step: int, epoch: int, group_size: int
) -> list[RolloutKey]:
    """First-attempt keys of one row's G rollouts, in order."""
    return [
        RolloutKey(
            job_id=job_id, job_seed=job_seed, split=split, step=step, epoch=epoch, row_index=row_index, index=index
        )
        for index in range(group_size)
    ]


def next_attempt(key: RolloutKey) -> RolloutKey:
    """The key of the rollout that replaces a failed one: new seed, same seat in the group."""
    return key.model_copy(update={"attempt": key.attempt + 1})
