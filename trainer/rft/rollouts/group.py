"""Rows of a step, and the keys of their rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.dataset import DatasetRow
from rft.core.messages import ToolSchema
from rft.core.rollout import RolloutKey, Split
from rft.core.spec import ToolServer


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row's place in a step: a batch may reach over the end of an epoch, so each row says its own."""

    row: DatasetRow
    epoch: int


def with_job_tools(rows: Sequence[DatasetRow], tools: Sequence[ToolServer]) -> list[DatasetRow]:
    """Rows that carry no tools of their own get those that the job describes; `"tools": []` means none at all."""
    described = tuple(tool.schema_of_job for tool in tools if tool.schema_of_job is not None)
    return [with_tools(row, described) for row in rows]


def with_tools(row: DatasetRow, described: tuple[ToolSchema, ...]) -> DatasetRow:
    """The row with these tools, where it says nothing of any."""
    return row.model_copy(update={"tools": described}) if described and row.item.get("tools") is None else row


def group_keys(
    row_index: int, *, job_id: str, job_seed: int, split: Split, step: int, epoch: int, group_size: int
) -> list[RolloutKey]:
    """Keys of one row's G rollouts, in order; none is a replacement."""
    return [
        RolloutKey(
            job_id=job_id, job_seed=job_seed, split=split, step=step, epoch=epoch, row_index=row_index, index=index
        )
        for index in range(group_size)
    ]


def replacement_key(key: RolloutKey) -> RolloutKey:
    """The key of the rollout that replaces a failed one: new seed, same slot in the group."""
    return key.model_copy(update={"attempt": key.attempt + 1, "seed_attempt": None})


def same_seed_key(key: RolloutKey) -> RolloutKey:
    """The key of the rollout that replaces one which an endpoint failed: the same seed, so the policy does the same.

    With a new one, those that happen not to call the endpoint would take the places of those that did.
    """
    drawn = key.attempt if key.seed_attempt is None else key.seed_attempt
    return key.model_copy(update={"attempt": key.attempt + 1, "seed_attempt": drawn})
