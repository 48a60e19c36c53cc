"""Rows of `eval_output_items`: each sample of each item of a run, once."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, LiteralString, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row, dict_row, kwargs_row
from pydantic import Field, TypeAdapter

from rft.core.base import JsonObject, Record
from rft.core.grade import TokenUsage
from rft.platform.api.pagination import Order
from rft.platform.evals.figures import Measured
from rft.platform.lifecycle.lease import Lease, lock_row
from rft.platform.store.storable import storable_json
from rft.platform.store.stored_json import StoredJson

ItemStatus: TypeAlias = Literal["pass", "fail", "error"]
_COLUMNS: LiteralString = "id, run_id, row_index, sample_index, created_at, status, item, sample, results"


class ModelUsage(TokenUsage):
    """Tokens of a model, and how often it was asked."""

    calls: int = 0


class NewOutputItem(Record):
    """What became of one sample of one item."""

    id: str
    row_index: int
    sample_index: int
    status: ItemStatus
    item: JsonObject
    sample: JsonObject
    """As it is shown."""
    results: tuple[JsonObject, ...]
    """As they are shown, in the order of the criteria."""
    scores: tuple[float | None, ...]
    """In the same order; None: no score."""
    passes: tuple[bool | None, ...]
    failure_code: str | None
    """Of an error."""
    usage: dict[str, ModelUsage]
    """By model, those of judges included."""
    prompt_tokens: int
    completion_tokens: int
    tool_calls: int
    tools_not_found: tuple[str, ...] = ()
    """Those that answered a call as if they were not there."""
    latency_s: float | None
    """Until the answer was there; None where nothing was sampled."""


class OutputItemRow(Record):
    """One row as it is shown."""

    id: str
    run_id: str
    row_index: int
    sample_index: int
    created_at: datetime
    status: ItemStatus
    item: StoredJson
    sample: StoredJson
    results: list[StoredJson]


class RunCounts(Record):
    """What became of a run's items so far."""

    passed: int = 0
    failed: int = 0
    errored: int = 0
    criteria: tuple[tuple[int, int, int], ...] = ()
    """Passed, failed and errored by each criterion, in their order."""
    usage: dict[str, ModelUsage] = Field(default_factory=dict)

    @property
    def samples(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.errored


class OutputItemRepository:
    """Reads and writes inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def add(self, lease: Lease, item: NewOutputItem) -> None:
        """Keep it, unless it is kept already. Raises LeaseLost: somebody else has the run now."""
        await lock_row(self._connection, lease)
        await self._connection.execute(_INSERT, {"run_id": lease.id} | _values(item))
        await self._connection.execute("update eval_runs set idle_takes = 0 where id = %s", (lease.id,))

    async def withdraw(
        self, lease: Lease, *, tool: str, error: Mapping[str, str], results: Sequence[JsonObject]
    ) -> None:
        """Items that met this tool as not there have an error, and these results in place of theirs. Raises LeaseLost.

        `error`: its `code` and `message`, as the sample shows them.
        """
        await lock_row(self._connection, lease)
        documents = {"error": dict(error), "results": list(results)}
        shown = {name: storable_json(json.dumps(document)) for name, document in documents.items()}
        values = {"run_id": lease.id, "tool": tool, "code": error["code"], **shown}
        await self._connection.execute(_WITHDRAW, values)

    async def finished(self, run_id: str) -> set[tuple[int, int]]:
        """Row and sample of what is kept."""
        cursor = await self._connection.execute(
            "select row_index, sample_index from eval_output_items where run_id = %s", (run_id,)
        )
        return {(row[0], row[1]) for row in await cursor.fetchall()}

    async def answered_calls(self, run_id: str, *, last: int) -> list[tuple[str, ...]]:
        """Of up to so many kept samples that went well, the latest last: the tools of their calls, each as often.

        Calls of a tool that one of the sample's calls met as not there are not among them.
        """
        cursor = await self._connection.execute(_CALLED, (run_id, last))
        kept = [(called, set(not_found)) for called, not_found in await cursor.fetchall()]
        return [tuple(name for name in called if name not in not_found) for called, not_found in reversed(kept)]

    async def get(self, run_id: str, item_id: str) -> OutputItemRow | None:
        """One."""
        query: LiteralString = (
            "select " + _COLUMNS + " from eval_output_items where id = %(id)s and run_id = %(run_id)s"
        )
        rows = await self._fetch(query, {"id": item_id, "run_id": run_id})
        return rows[0] if rows else None

    async def page(
        self,
        run_id: str,
        *,
        after: str | None,
        limit: int,
        order: Order,
        status: ItemStatus | None,
        row_index: int | None,
    ) -> list[OutputItemRow]:
        """Up to `limit`, in the order of the rows."""
        values = {"run_id": run_id, "after": after, "limit": limit, "status": status, "row_index": row_index}
        return await self._fetch(_FIRST_ROWS if order == "asc" else _LAST_ROWS, values)

    async def measured(self, run_id: str) -> list[Measured]:
        """What figures are made of, in the order of the rows."""
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_MEASURED, (run_id,))
            rows = await cursor.fetchall()
        # As with the figures: tens of thousands of records would hold up the event loop.
        return await asyncio.to_thread(lambda: [Measured(**row) for row in rows])

    async def items(self, run_id: str, rows: Sequence[int]) -> dict[int, JsonObject]:
        """The items themselves, by their place."""
        cursor = await self._connection.execute(
            "select distinct on (row_index) row_index, item from eval_output_items"
            " where run_id = %s and row_index = any(%s) order by row_index, sample_index",
            (run_id, list(rows)),
        )
        return {row[0]: row[1] for row in await cursor.fetchall()}

    async def counts(self, run_ids: Sequence[str]) -> dict[str, RunCounts]:
        """By run; those without an item are missing."""
        async with self._connection.cursor(row_factory=kwargs_row(_to_counts)) as cursor:
            await cursor.execute(_COUNTS, {"ids": list(run_ids)})
            return dict(await cursor.fetchall())

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[OutputItemRow]:
        async with self._connection.cursor(row_factory=class_row(OutputItemRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


_CRITERIA = TypeAdapter[tuple[tuple[int, int, int], ...]](tuple[tuple[int, int, int], ...])


def _to_counts(
    *, run_id: str, passed: int, failed: int, errored: int, criteria: object, usage: object
) -> tuple[str, RunCounts]:
    return run_id, RunCounts.model_validate(
        {
            "passed": passed,
            "failed": failed,
            "errored": errored,
            "criteria": _CRITERIA.validate_python(criteria or ()),
            "usage": usage or {},
        }
    )


def _values(item: NewOutputItem) -> dict[str, object]:
    written = item.model_dump(mode="json")
    documents = {name: storable_json(json.dumps(written[name])) for name in ("item", "sample", "results", "usage")}
    arrays = {name: list(written[name]) for name in ("scores", "passes", "tools_not_found")}
    return {**written, **documents, **arrays}


_INSERT: LiteralString = (
    "insert into eval_output_items (id, run_id, row_index, sample_index, status, item, sample, results, scores, passes,"
    " failure_code, usage, prompt_tokens, completion_tokens, tool_calls, tools_not_found, latency_s)"
    " values (%(id)s, %(run_id)s, %(row_index)s, %(sample_index)s, %(status)s, %(item)s::jsonb, %(sample)s::jsonb,"
    " %(results)s::jsonb, %(scores)s, %(passes)s, %(failure_code)s, %(usage)s::jsonb, %(prompt_tokens)s,"
    " %(completion_tokens)s, %(tool_calls)s, %(tools_not_found)s, %(latency_s)s) on conflict do nothing"
)
_WITHDRAW: LiteralString = (
    "update eval_output_items set status = 'error', failure_code = %(code)s, results = %(results)s::jsonb,"
    " sample = sample || jsonb_build_object('error', %(error)s::jsonb),"
    " scores = array_fill(null::double precision, array[cardinality(scores)]),"
    " passes = array_fill(null::boolean, array[cardinality(passes)])"
    " where run_id = %(run_id)s and %(tool)s = any(tools_not_found) and status <> 'error'"
)
_CALLED: LiteralString = (
    "select jsonb_path_query_array(sample, '$.output[*].tool_calls[*].function.name'), tools_not_found"
    # The latest first, and only then their samples, which are large.
    " from (select id, created_at, sample, tools_not_found from eval_output_items"
    " where run_id = %s and tool_calls > 0 and failure_code is null order by created_at desc, id desc limit %s) latest"
    " order by created_at desc, id desc"
)
_PAGE: LiteralString = (
    "select "
    + _COLUMNS
    + " from eval_output_items where run_id = %(run_id)s and (%(status)s::text is null or status = %(status)s)"
    + " and (%(row_index)s::integer is null or row_index = %(row_index)s)"
    + " and (%(after)s::text is null or "
)
_PLACE: LiteralString = "(select row_index, sample_index from eval_output_items where id = %(after)s)"
_FIRST_ROWS: LiteralString = (
    _PAGE + "(row_index, sample_index) > " + _PLACE + ") order by row_index, sample_index limit %(limit)s"
)
_LAST_ROWS: LiteralString = (
    _PAGE + "(row_index, sample_index) < " + _PLACE + ") order by row_index desc, sample_index desc limit %(limit)s"
)
_MEASURED: LiteralString = (
    "select row_index, md5(item::text) as item_digest, status, scores, passes, failure_code, prompt_tokens,"
    " completion_tokens, coalesce((sample->>'turns_without_usage')::integer, 0) as turns_without_usage, tool_calls,"
    " latency_s, (sample->>'cost')::double precision as cost from eval_output_items where run_id = %s"
    " order by row_index, sample_index"
)
_COUNTS: LiteralString = (
    "with items as (select * from eval_output_items where run_id = any(%(ids)s)),"
    " verdicts as (select run_id, place, count(*) filter (where verdict) as passed,"
    "  count(*) filter (where not verdict) as failed, count(*) filter (where verdict is null) as errored"
    "  from items, unnest(passes) with ordinality as verdicts (verdict, place) group by run_id, place),"
    " criteria as (select run_id, jsonb_agg(jsonb_build_array(passed, failed, errored) order by place) as criteria"
    "  from verdicts group by run_id),"
    " spent as (select run_id, key as model, sum((value->>'prompt_tokens')::bigint) as prompt_tokens,"
    "  sum((value->>'completion_tokens')::bigint) as completion_tokens,"
    "  sum((value->>'cached_tokens')::bigint) as cached_tokens, sum((value->>'calls')::bigint) as calls"
    "  from items, jsonb_each(usage) group by run_id, key),"
    " usages as (select run_id, jsonb_object_agg(model, jsonb_build_object('prompt_tokens', prompt_tokens,"
    "  'completion_tokens', completion_tokens, 'cached_tokens', cached_tokens, 'calls', calls)) as usage"
    "  from spent group by run_id)"
    " select items.run_id, count(*) filter (where status = 'pass') as passed,"
    " count(*) filter (where status = 'fail') as failed, count(*) filter (where status = 'error') as errored,"
    " (select criteria from criteria where criteria.run_id = items.run_id) as criteria,"
    " (select usage from usages where usages.run_id = items.run_id) as usage from items group by items.run_id"
)
