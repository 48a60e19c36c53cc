"""Rows of `serving_processes` and `served_tokens`."""

from dataclasses import dataclass
from datetime import date
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.platform.lifecycle.lease import EXPIRED, GIVE_BACK, TAKE, Lease, LeasedTable, end_dead_leases

SERVING = LeasedTable("serving_processes", standing=("running",), occupying=("running",))


@dataclass(frozen=True, slots=True)
class ServedTokens:
    """What one request came to."""

    prompt_tokens: int = 0
    remembered_tokens: int = 0
    completion_tokens: int = 0
    rendered_again: int = 0


@dataclass(frozen=True, slots=True)
class ServedDay:
    """What one row of `served_tokens` is about."""

    day: date
    api_key_id: str
    model: str


class CountedDay(Record):
    """One row of `served_tokens`, with the name of its key."""

    day: date
    api_key_id: str
    api_key_name: str | None
    model: str
    requests: int
    prompt_tokens: int
    remembered_tokens: int
    completion_tokens: int
    rendered_again: int


class ServingRepository:
    """Reads and writes inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def take(self, process_id: str, *, owner: str, ttl_s: float) -> Lease | None:
        """The right to start this process; None while another process of the platform has it."""
        await end_dead_leases(self._connection, SERVING)
        await self._connection.execute(
            "insert into serving_processes (id, status) values (%s, 'stopped') on conflict do nothing", (process_id,)
        )
        cursor = await self._connection.execute(_TAKE, {"id": process_id, "owner": owner, "ttl_s": ttl_s})
        row = await cursor.fetchone()
        return None if row is None else Lease(SERVING, process_id, row[0], owner)

    async def give_back(self, lease: Lease) -> None:
        """It has ended; harmless where the lease is no longer ours."""
        await self._connection.execute(_GIVE_BACK, {"id": lease.id, "token": lease.token})

    async def count(self, api_key_id: str, model: str, tokens: ServedTokens) -> None:
        """Add one request to a key's day."""
        await self._connection.execute(
            _COUNT,
            {
                "api_key_id": api_key_id,
                "model": model,
                "prompt_tokens": tokens.prompt_tokens,
                "remembered_tokens": tokens.remembered_tokens,
                "completion_tokens": tokens.completion_tokens,
                "rendered_again": tokens.rendered_again,
            },
        )

    async def days(
        self,
        *,
        model: str | None,
        api_key_id: str | None,
        since: date | None,
        until: date | None,
        after: ServedDay | None,
        limit: int,
    ) -> list[CountedDay]:
        """The newest day first; of one day by key and model."""
        async with self._connection.cursor(row_factory=class_row(CountedDay)) as cursor:
            await cursor.execute(
                _DAYS,
                {
                    "model": model,
                    "api_key_id": api_key_id,
                    "since": since,
                    "until": until,
                    "after_day": None if after is None else after.day,
                    "after_key": None if after is None else after.api_key_id,
                    "after_model": None if after is None else after.model,
                    "limit": limit,
                },
            )
            return await cursor.fetchall()


_TAKE: LiteralString = (
    "update serving_processes set status = 'running', "
    + TAKE
    + " where id = %(id)s and (status = 'stopped' or "
    + EXPIRED
    + ") returning lease_token"
)
_GIVE_BACK: LiteralString = (
    "update serving_processes set status = 'stopped', " + GIVE_BACK + " where id = %(id)s and lease_token = %(token)s"
)
_COUNT: LiteralString = (
    "insert into served_tokens as counted (api_key_id, model, day, requests, prompt_tokens, remembered_tokens,"
    " completion_tokens, rendered_again) values (%(api_key_id)s, %(model)s, (now() at time zone 'utc')::date, 1,"
    " %(prompt_tokens)s, %(remembered_tokens)s, %(completion_tokens)s, %(rendered_again)s)"
    " on conflict (api_key_id, model, day) do update set requests = counted.requests + 1,"
    " prompt_tokens = counted.prompt_tokens + excluded.prompt_tokens,"
    " remembered_tokens = counted.remembered_tokens + excluded.remembered_tokens,"
    " completion_tokens = counted.completion_tokens + excluded.completion_tokens,"
    " rendered_again = counted.rendered_again + excluded.rendered_again"
)
_DAYS: LiteralString = (
    "select day, api_key_id, api_keys.name as api_key_name, model, requests, prompt_tokens, remembered_tokens,"
    " completion_tokens, rendered_again from served_tokens left join api_keys on api_keys.id = api_key_id"
    " where (%(model)s::text is null or model = %(model)s)"
    " and (%(api_key_id)s::text is null or api_key_id = %(api_key_id)s)"
    " and (%(since)s::date is null or day >= %(since)s) and (%(until)s::date is null or day <= %(until)s)"
    " and (%(after_day)s::date is null or day < %(after_day)s"
    " or (day = %(after_day)s and (api_key_id, model) > (%(after_key)s, %(after_model)s)))"
    " order by day desc, api_key_id, model limit %(limit)s"
)
