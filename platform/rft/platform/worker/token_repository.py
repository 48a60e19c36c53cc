"""Rows of `rollout_tokens`, `token_prompts`, `token_pieces` and `token_ratios`: what rollouts were made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.errors import UniqueViolation
from psycopg.rows import TupleRow

from rft.core.events import RatiosMeasured, TokensSampled
from rft.platform.store.storable import storable_text
from rft.platform.worker.log_line import LogLine

_Row = tuple[str | float | bytes, ...]


async def store_tokens(connection: AsyncConnection[TupleRow], job_id: str, lines: Sequence[LogLine]) -> None:
    """The tokens that these lines tell of; what is told again takes the place of what is there. Others are left out."""
    events = [line.event for line in lines]
    sampled = [event for event in events if isinstance(event, TokensSampled)]
    measured = [event for event in events if isinstance(event, RatiosMeasured)]
    await _store_shared(connection, job_id, sampled)
    await _store(
        connection, _SAMPLED, job_id, {storable_text(told.trace_id): _sampled(job_id, told) for told in sampled}
    )
    await _store(
        connection, _RATIOS, job_id, {storable_text(told.trace_id): _ratios(job_id, told) for told in measured}
    )


async def _store_shared(connection: AsyncConnection[TupleRow], job_id: str, sampled: Sequence[TokensSampled]) -> None:
    """Prompts and pieces, once each: every process of a run tells of them anew."""
    prompts = {storable_text(told.prompt): told.new_prompt for told in sampled if told.new_prompt is not None}
    pieces = {token: piece for told in sampled for token, piece in told.new_pieces.items()}
    if prompts:
        await connection.execute(_STORE_PROMPTS, (job_id, [*prompts], [*prompts.values()]))
    if pieces:
        await connection.execute(_STORE_PIECES, (job_id, [*pieces], [*pieces.values()]))


@dataclass(frozen=True, slots=True)
class _CopyTarget:
    """Where rows of rollouts go, in Postgres' binary format."""

    copy: LiteralString
    types: tuple[str, ...]
    forget: LiteralString


async def _store(
    connection: AsyncConnection[TupleRow], table: _CopyTarget, job_id: str, rows: Mapping[str, _Row]
) -> None:
    """By rollout. Told again is so little that looking beforehand would cost more."""
    if not rows:
        return
    try:
        async with connection.transaction():
            await _copy(connection, table, rows.values())
    except UniqueViolation:
        await connection.execute(table.forget, (job_id, [*rows]))
        await _copy(connection, table, rows.values())


async def _copy(connection: AsyncConnection[TupleRow], table: _CopyTarget, rows: Iterable[_Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(table.copy) as copy:
        copy.set_types(table.types)
        for row in rows:
            await copy.write_row(row)


def _sampled(job_id: str, told: TokensSampled) -> _Row:
    return job_id, storable_text(told.trace_id), storable_text(told.prompt), told.completion


def _ratios(job_id: str, told: RatiosMeasured) -> _Row:
    return job_id, storable_text(told.trace_id), told.advantage, told.log_ratios


_SAMPLED = _CopyTarget(
    "copy rollout_tokens (job_id, trace_id, prompt, completion) from stdin (format binary)",
    ("text", "text", "text", "bytea"),
    "delete from rollout_tokens where job_id = %s and trace_id = any(%s)",
)
_RATIOS = _CopyTarget(
    "copy token_ratios (job_id, trace_id, advantage, log_ratios) from stdin (format binary)",
    ("text", "text", "float8", "bytea"),
    "delete from token_ratios where job_id = %s and trace_id = any(%s)",
)
_STORE_PROMPTS: LiteralString = (
    "insert into token_prompts (job_id, name, ids)"
    " select %s, * from unnest(%s::text[], %s::bytea[]) on conflict do nothing"
)
_STORE_PIECES: LiteralString = (
    "insert into token_pieces (job_id, token_id, piece)"
    " select %s, * from unnest(%s::int8[], %s::bytea[]) on conflict do nothing"
)
