"""Sign-ins of browsers: a session stands for one API key, and ends with it. Only SHA-256s of tokens are stored."""

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.api.key_repository import IS_USE_UNNOTED, note_use

TOKEN_PREFIX = "signin_"
"""Begins every token of a sign-in link, and no API key."""
_OF_SESSION: LiteralString = (
    "select s.api_key_id, s.expires_at, k.name, "
    + IS_USE_UNNOTED
    + " from sessions s join api_keys k on k.id = s.api_key_id"
    " where s.sha256 = %s and s.expires_at > now() and k.revoked_at is null"
)
_LIVING: LiteralString = (
    "select s.sha256 from sessions s join api_keys k on k.id = s.api_key_id"
    " where s.sha256 = any(%s) and s.expires_at > now() and k.revoked_at is null"
)
_REDEEM: LiteralString = (
    "delete from sign_in_tokens t using api_keys k"
    " where t.sha256 = %s and t.expires_at > now() and k.id = t.api_key_id and k.revoked_at is null"
    " returning t.api_key_id"
)


@dataclass(frozen=True, slots=True)
class Session:
    """One that has not ended."""

    sha256: bytes
    api_key_id: str
    expires_at: datetime
    key_name: str


async def create_session(connection: AsyncConnection[TupleRow], api_key_id: str, *, max_age_s: float) -> str:
    """A new session's token, told this once. Sessions that are over are forgotten."""
    await connection.execute("delete from sessions where expires_at < now()")
    token = secrets.token_urlsafe(32)
    await connection.execute(
        "insert into sessions (sha256, api_key_id, expires_at) values (%s, %s, now() + make_interval(secs => %s))",
        (_sha256(token), api_key_id, max_age_s),
    )
    return token


async def find_session(connection: AsyncConnection[TupleRow], token: str) -> Session | None:
    """The session of a token, while neither its time nor its key is over."""
    sha256 = _sha256(token)
    cursor = await connection.execute(_OF_SESSION, (sha256,))
    row = await cursor.fetchone()
    if row is None:
        return None
    api_key_id, expires_at, key_name, is_use_unnoted = row
    if is_use_unnoted:
        await note_use(connection, api_key_id)
    return Session(sha256, api_key_id, expires_at, key_name)


async def end_session(connection: AsyncConnection[TupleRow], token: str) -> None:
    """Sign the browser out."""
    await connection.execute("delete from sessions where sha256 = %s", (_sha256(token),))


async def living_sessions(connection: AsyncConnection[TupleRow], sha256s: Collection[bytes]) -> set[bytes]:
    """Those of them that have not ended."""
    cursor = await connection.execute(_LIVING, (list(sha256s),))
    return {bytes(sha256) for (sha256,) in await cursor.fetchall()}


async def create_sign_in_token(connection: AsyncConnection[TupleRow], api_key_id: str, *, max_age_s: float) -> str:
    """What signs one browser in, once, and as long as it is young."""
    await connection.execute("delete from sign_in_tokens where expires_at < now()")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    await connection.execute(
        "insert into sign_in_tokens (sha256, api_key_id, expires_at)"
        " values (%s, %s, now() + make_interval(secs => %s))",
        (_sha256(token), api_key_id, max_age_s),
    )
    return token


async def redeem_sign_in_token(connection: AsyncConnection[TupleRow], token: str) -> str | None:
    """The key it signs in with; None when it was used before, is too old, or its key is revoked."""
    cursor = await connection.execute(_REDEEM, (_sha256(token),))
    row = await cursor.fetchone()
    return None if row is None else row[0]


def _sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
