"""Rows of `steps` and `rollouts`; the worker writes them, here they are read."""

from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row, dict_row
from pydantic import Json

from rft.core.base import JsonObject, Record
from rft.core.events import RolloutDone, StepDone
from rft.core.rollout import Split
from rft.platform.store.rollout_columns import COLUMNS, SUMMARY, RolloutRow

Outcome = Literal["graded", "failed"]


class StepRow(Record):
    """One row of `steps`."""

    step: int
    created_at: datetime
    record: Json[StepDone]


class RolloutFilter(Record):
    """Which rollouts of a job are wanted; None: all."""

    split: Split | None = None
    step: int | None = None
    row_index: int | None = None
    outcome: Outcome | None = None


class StepRepository:
    """Reads `steps` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(self, job_id: str, *, after: int | None, limit: int) -> list[StepRow]:
        """Up to `limit` steps of a job, oldest first."""
        async with self._connection.cursor(row_factory=class_row(StepRow)) as cursor:
            await cursor.execute(_STEPS, (job_id, -1 if after is None else after, limit))
            return await cursor.fetchall()


class RolloutRepository:
    """Reads `rollouts` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(
        self, job_id: str, wanted: RolloutFilter, *, after: RolloutRow | None, limit: int
    ) -> list[JsonObject]:
        """Up to `limit` rollouts as they go out: newest step first, then by split, row, place in the group, attempt."""
        values: dict[str, object] = {**wanted.model_dump(), "job_id": job_id, "limit": limit}
        if after is not None:
            values |= {f"after_{name}": value for name, value in after.model_dump(include=_PLACE).items()}
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_page(wanted, None if after is None else after.split), values)
            return await cursor.fetchall()

    async def get(self, job_id: str, trace_id: str) -> RolloutRow | None:
        """One rollout without its record."""
        async with self._connection.cursor(row_factory=class_row(RolloutRow)) as cursor:
            await cursor.execute(_ROLLOUT, (job_id, trace_id))
            return await cursor.fetchone()

    async def record(self, job_id: str, trace_id: str) -> RolloutDone | None:
        """All that the trainer reported of one rollout."""
        cursor = await self._connection.execute(
            "select record::text from rollouts where job_id = %s and trace_id = %s", (job_id, trace_id)
        )
        row = await cursor.fetchone()
        return None if row is None else RolloutDone.model_validate_json(row[0])


_STEPS: LiteralString = (
    "select step, created_at, record::text from steps where job_id = %s and step > %s order by step limit %s"
)
_ROLLOUT: LiteralString = "select " + COLUMNS + " from rollouts where job_id = %s and trace_id = %s"
_PLACE = {"step", "row_index", "group_index", "attempt", "trace_id"}
_OF_SPLIT: dict[Split, LiteralString] = {
    Split.TRAIN: "split = 'train'",
    Split.VALID: "split = 'valid'",
    Split.TEST: "split = 'test'",
}
_OF_OUTCOME: dict[Outcome, LiteralString] = {"graded": "reward is not null", "failed": "reward is null"}
_ORDER: LiteralString = " order by step desc, split, row_index, group_index, attempt, trace_id limit %(limit)s"


def _page(wanted: RolloutFilter, after: Split | None) -> LiteralString:
    """One ordered walk through an index per split, from the place behind the last page's end, merged.

    Filters are written out where they are wanted: a condition that may be null keeps the planner from every index.
    """
    filters: LiteralString = ""
    if wanted.step is not None:
        filters += " and step = %(step)s"
    if wanted.row_index is not None:
        filters += " and row_index = %(row_index)s"
    if wanted.outcome is not None:
        filters += " and " + _OF_OUTCOME[wanted.outcome]
    walks: list[LiteralString] = []
    for split in Split if wanted.split is None else (wanted.split,):
        for place in _places_of(split, after):
            walks.append(
                "(select "
                + COLUMNS
                + " from rollouts where job_id = %(job_id)s and "
                + _OF_SPLIT[split]
                + place
                + filters
                + _ORDER
                + ")"
            )
    return "select " + SUMMARY + " from (" + " union all ".join(walks) + ") as walks" + _ORDER


def _places_of(split: Split, after: Split | None) -> tuple[LiteralString, ...]:
    """Conditions that together mean: behind the last page's end, which was in the split `after`."""
    if after is None:
        return ("",)
    if split > after:
        return (" and step <= %(after_step)s",)
    below: LiteralString = " and step < %(after_step)s"
    if split < after:
        return (below,)
    beside: LiteralString = (
        " and step = %(after_step)s and (row_index, group_index, attempt, trace_id)"
        " > (%(after_row_index)s, %(after_group_index)s, %(after_attempt)s, %(after_trace_id)s)"
    )
    return (beside, below)
