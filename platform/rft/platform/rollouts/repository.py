"""Rows of `steps` and `rollouts`; the worker writes them, here they are read."""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.errors import QueryCanceled
from psycopg.rows import TupleRow, class_row, dict_row
from pydantic import Json

from rft.core.base import JsonObject, Record
from rft.core.errors import RftError
from rft.core.events import RolloutDone, StepDone
from rft.platform.rollouts.filters import RolloutFilter, RolloutOrder, Sort, searched_terms
from rft.platform.rollouts.range_repository import is_asked, steps_that_may_fit
from rft.platform.rollouts.walk_repository import Walk
from rft.platform.store.rollout_columns import COLUMNS, LAST_TOOL_BIT, PREVIEWS, RolloutRow

PATIENCE_MS = 5000
"""How long a search may take."""


class StepRow(Record):
    """One row of `steps`."""

    step: int
    created_at: datetime
    record: Json[StepDone]


class ConversationRow(RolloutRow):
    """One row of `rollouts` with its record, the messages apart."""

    prompt: str | None
    answer: str | None
    rest: Json[RolloutDone]
    """The record without its messages."""
    messages: str
    """JSON, as it was stored."""
    is_older: bool
    """Whether its messages lack what messages have today: every field that may be left out is looked for."""


class TooWide(RftError):
    """A search took too long: there is too much to look through."""


class StepRepository:
    """Reads `steps` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(self, job_id: str, *, after: int | None, limit: int) -> list[StepRow]:
        """Up to `limit` steps of a job, oldest first."""
        async with self._connection.cursor(row_factory=class_row(StepRow)) as cursor:
            await cursor.execute(_STEPS, (job_id, -1 if after is None else after, limit))
            return await cursor.fetchall()

    async def some(self, job_id: str, steps: Sequence[int]) -> list[StepRow]:
        """These of a job's steps, oldest first."""
        async with self._connection.cursor(row_factory=class_row(StepRow)) as cursor:
            await cursor.execute(_SOME_STEPS, (job_id, list(steps)))
            return await cursor.fetchall()


class RolloutRepository:
    """Reads `rollouts` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(
        self,
        job_id: str,
        wanted: RolloutFilter,
        order: RolloutOrder,
        *,
        after: RolloutRow | None,
        limit: int,
        is_back: bool = False,
    ) -> list[JsonObject]:
        """Up to `limit` rollouts as they go out, behind `after`; `is_back`: before it, the nearest first.

        Raises TooWide.
        """
        values: dict[str, object] = {**wanted.model_dump(), "job_id": job_id, "limit": limit}
        values["fault_codes"] = wanted.fault_codes
        if after is not None:
            values |= {f"after_{name}": value for name, value in after.model_dump(include=_PLACE).items()}
            values["after_value"] = getattr(after, order.sort, None)
        if wanted.tool is not None:
            values["tool_bit"] = await self._bit(job_id, wanted.tool)
            if values["tool_bit"] is None:
                return []
        is_bounded = wanted.q is not None or is_asked(wanted)
        if is_bounded:
            bounds = await self._bounds(wanted, order, values, after=after, is_back=is_back)
            if bounds is None:
                return []
            values["first"], values["last"] = bounds
        if wanted.q is not None:
            terms = searched_terms(wanted.q)
            values |= {"terms": " & ".join(term.query for term in terms), "patterns": [term.pattern for term in terms]}
        walk = Walk(
            wanted,
            order,
            after=None if after is None else after.split,
            has_value=values.get("after_value") is not None,
            is_back=is_back,
            is_bit_shared=values.get("tool_bit") == LAST_TOOL_BIT,
            is_bounded=is_bounded,
        )
        return await self._patiently(walk.page(), values)

    async def _bit(self, job_id: str, tool: str) -> int | None:
        """None: no rollout of the job called it."""
        row = await (await self._connection.execute(_BIT, (job_id, tool))).fetchone()
        return None if row is None else row[0]

    async def _bounds(
        self,
        wanted: RolloutFilter,
        order: RolloutOrder,
        values: dict[str, object],
        *,
        after: RolloutRow | None,
        is_back: bool,
    ) -> tuple[int, int] | None:
        """The first and the last step of the page; None where nothing is wanted."""
        bounds = await steps_that_may_fit(self._connection, wanted, values)
        if bounds is None or after is None or order.sort is not Sort.NEWEST:
            return bounds
        first, last = bounds
        is_upwards = (order.order == "asc") is not is_back
        return (max(first, after.step), last) if is_upwards else (first, min(last, after.step))

    async def _patiently(self, query: LiteralString, values: dict[str, object]) -> list[JsonObject]:
        try:
            # The limit holds to the end of a transaction, and who only reads has none.
            async with self._connection.transaction(), self._connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute("select set_config('statement_timeout', %s, true)", (str(PATIENCE_MS),))
                await cursor.execute(query, values)
                return await cursor.fetchall()
        except QueryCanceled as error:
            raise TooWide from error

    async def get(self, job_id: str, trace_id: str) -> RolloutRow | None:
        """One rollout without its record."""
        async with self._connection.cursor(row_factory=class_row(RolloutRow)) as cursor:
            await cursor.execute(_ROLLOUT, (job_id, trace_id))
            return await cursor.fetchone()

    async def conversation(self, job_id: str, trace_id: str) -> ConversationRow | None:
        """One rollout with its record, whose messages are as they were stored."""
        async with self._connection.cursor(row_factory=class_row(ConversationRow)) as cursor:
            await cursor.execute(_CONVERSATION, (job_id, trace_id))
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
_SOME_STEPS: LiteralString = (
    "select step, created_at, record::text from steps where job_id = %s and step = any(%s::integer[]) order by step"
)
_ROLLOUT: LiteralString = "select " + COLUMNS + " from rollouts where job_id = %s and trace_id = %s"
_CONVERSATION: LiteralString = (
    "select " + COLUMNS + ", " + PREVIEWS + ", jsonb_set(record, '{messages}', '[]')::text as rest,"
    " (record -> 'messages')::text as messages,"
    " jsonb_path_exists(record, '$.messages[*] ? (!exists(@.reasoning_content) || !exists(@.tool_calls)"
    " || !exists(@.tool_call_id) || !exists(@.name))') as is_older"
    " from rollouts where job_id = %s and trace_id = %s"
)  # fmt: skip
_PLACE = {"split", "step", "row_index", "group_index", "attempt", "trace_id"}
_BIT: LiteralString = "select bit from called_tools where job_id = %s and name = %s"
