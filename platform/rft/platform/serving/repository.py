"""Rows of `serving_processes` and `served_tokens`."""

from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.lifecycle.lease import EXPIRED, GIVE_BACK, TAKE, Lease, LeasedTable, end_dead_leases

SERVING = LeasedTable("serving_processes", standing=("running",), occupying=("running",))


@dataclass(frozen=True, slots=True)
class ServedTokens:
    """What one request came to."""

    prompt_tokens: int = 0
    remembered_tokens: int = 0
    completion_tokens: int = 0
    rendered_again: int = 0


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
