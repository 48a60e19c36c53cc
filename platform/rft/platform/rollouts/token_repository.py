"""Reads what is kept of rollouts' tokens; the worker writes it."""

from collections.abc import Collection
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record


class TokenRow(Record):
    """What is kept of one rollout; packed, see `core.token_record`."""

    prompt: bytes
    completion: bytes
    advantage: float | None
    log_ratios: bytes | None
    """Both None: no step trained on it."""


class TokenRepository:
    """Works inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def get(self, job_id: str, trace_id: str) -> TokenRow | None:
        """None: nothing is kept of this rollout."""
        async with self._connection.cursor(row_factory=class_row(TokenRow), binary=True) as cursor:
            await cursor.execute(_TOKENS, (job_id, trace_id))
            return await cursor.fetchone()

    async def pieces(self, job_id: str, token_ids: Collection[int]) -> dict[int, bytes]:
        """What these tokens of a job stand for."""
        cursor = await self._connection.execute(_PIECES, (job_id, list(token_ids)))
        return dict(await cursor.fetchall())


_TOKENS: LiteralString = (
    "select prompts.ids as prompt, completion, advantage, log_ratios"
    " from rollout_tokens as tokens"
    " join token_prompts as prompts on prompts.job_id = tokens.job_id and prompts.name = tokens.prompt"
    " left join token_ratios as ratios on ratios.job_id = tokens.job_id and ratios.trace_id = tokens.trace_id"
    " where tokens.job_id = %s and tokens.trace_id = %s"
)
_PIECES: LiteralString = "select token_id, piece from token_pieces where job_id = %s and token_id = any(%s::int8[])"
