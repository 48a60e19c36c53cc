"""How far the rewards of each row spread at one step of a job: what there is to learn from."""

from typing import Literal

from rft.core.rollout import Split
from rft.core.row_spread import RowSpread, Variance, evenly, row_spreads, variance_of, widest
from rft.platform.jobs.service import expect_job
from rft.platform.rollouts.row_reward_repository import rewards_by_row
from rft.platform.store.unit_of_work import UnitOfWork

_WIDEST = 30
"""A list to pick a row from."""


class JobVarianceObject(Variance):
    """The rows of one step, and what they say of `compute_multiplier`."""

    object: Literal["fine_tuning.job.variance"] = "fine_tuning.job.variance"
    split: Split
    step: int
    data: list[RowSpread]
    """Rows by their mean, lowest first; of more than `limit` every so many."""
    widest: list[RowSpread]
    """A few of all rows: those whose rewards spread furthest, widest first."""


async def job_variance(uow: UnitOfWork, job_id: str, *, split: Split, step: int, limit: int) -> JobVarianceObject:
    """Raises NotFound."""
    await expect_job(uow, job_id)
    rewards = await rewards_by_row(uow.connection, job_id, split, step)
    told = variance_of(rewards).model_dump()
    rows = row_spreads(rewards)
    lists = {"data": evenly(rows, limit), "widest": widest(rows, _WIDEST)}
    return JobVarianceObject.model_validate(told | lists | {"split": split, "step": step})
