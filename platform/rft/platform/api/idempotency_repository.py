"""`Idempotency-Key`: the same request sent twice is done once, whoever lost which reply."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, LiteralString, TypeAlias

from fastapi import Depends, Header
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import JsonValue, WithJsonSchema

from rft.platform.api.dependencies import KeyId
from rft.platform.api.errors import BadRequest

HEADER = "Idempotency-Key"
MAX_CHARS = 255
_PRINTABLE = r"^[!-~¡-¬®-ÿ]([ -~¡-¬®-ÿ]{0,253}[!-~¡-¬®-ÿ])?$"
"""The same in the document's words. Spaces around a header's value are not part of it."""
_DAY = "interval '24 hours'"


class Made(StrEnum):
    """What a request makes."""

    JOB = "job"
    EVAL_RUN = "eval run"


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What the caller calls this request."""

    api_key_id: str
    key: str


def _read_key(
    api_key_id: KeyId,
    idempotency_key: Annotated[
        str | None,
        WithJsonSchema({"type": "string", "maxLength": MAX_CHARS, "pattern": _PRINTABLE}),
        Header(description="Text of your choice: the same order sent again within 24 hours gives the same object."),
    ] = None,
) -> IdempotencyKey | None:
    if idempotency_key is None:
        return None
    if not 0 < len(idempotency_key) <= MAX_CHARS or not idempotency_key.isprintable():
        raise BadRequest(
            f"The header {HEADER} must be a text of 1 to {MAX_CHARS} printable characters.",
            param=HEADER,
            code="invalid_value",
        )
    return IdempotencyKey(api_key_id, idempotency_key)


OptionalIdempotencyKey: TypeAlias = Annotated[IdempotencyKey | None, Depends(_read_key)]


def fingerprint(body: JsonValue) -> bytes:
    """The same for two bodies that say the same, whatever the order of their fields."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()


async def earlier(connection: AsyncConnection[TupleRow], key: IdempotencyKey, request: bytes) -> str | None:
    """What this key has made already, by its id. Raises BadRequest when another request carried the key."""
    cursor = await connection.execute(
        "select coalesce(job_id, eval_run_id), request_sha256 from idempotency_keys where api_key_id = %s and key = %s"
        " and created_at > clock_timestamp() - " + _DAY,
        (key.api_key_id, key.key),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    if bytes(row[1]) != request:
        raise BadRequest(
            f"The {HEADER} '{key.key}' was used for another request in the last 24 hours; use a new one.",
            param=HEADER,
            code="idempotency_key_reused",
        )
    return str(row[0])


async def claim(
    connection: AsyncConnection[TupleRow], key: IdempotencyKey, request: bytes, made: Made, made_id: str
) -> bool:
    """Make the key stand for what is being made; False when another request has done so first.

    A request that is doing it right now is waited for: what it makes counts only once it is committed.
    """
    await connection.execute(
        "delete from idempotency_keys where (api_key_id, key) in (select api_key_id, key from idempotency_keys"
        " where created_at < clock_timestamp() - " + _DAY + " for update skip locked)"
    )
    cursor = await connection.execute(_CLAIM[made], (key.api_key_id, key.key, request, made_id))
    return cursor.rowcount > 0


_CLAIM: dict[Made, LiteralString] = {
    Made.JOB: "insert into idempotency_keys (api_key_id, key, request_sha256, job_id) values (%s, %s, %s, %s)"
    " on conflict (api_key_id, key) do nothing",
    Made.EVAL_RUN: "insert into idempotency_keys (api_key_id, key, request_sha256, eval_run_id)"
    " values (%s, %s, %s, %s) on conflict (api_key_id, key) do nothing",
}
