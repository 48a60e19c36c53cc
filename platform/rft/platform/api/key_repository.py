"""API keys: `rft_<id>_<random>`. Only a SHA-256 of the key is stored; 256 random bits need no slow hash."""

import hashlib
import hmac
import secrets
from collections.abc import Collection
from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.core.errors import RftError
from rft.core.ids import public_id
from rft.platform.store.advisory_locks import AdvisoryLock, lock

_PREFIX = "rft_"
IS_USE_UNNOTED: LiteralString = "coalesce(last_used_at < now() - interval '1 minute', true)"
"""Whether `note_use` has something to do; asked along with what is asked anyway."""
_VERIFY: LiteralString = "select sha256, " + IS_USE_UNNOTED + " from api_keys where id = %s and revoked_at is null"
_NOTE_USE: LiteralString = (
    # Whoever finds somebody else at it need not do the same.
    "update api_keys set last_used_at = now()"
    " where id = (select id from api_keys where id = %s and " + IS_USE_UNNOTED + " for update skip locked)"
)
_COLUMNS: LiteralString = "id, name, created_at, last_used_at, revoked_at"


class LastKey(RftError):
    """Without this key nobody could use the API any more."""


class KeyRow(Record):
    """One row of `api_keys`, without its hash."""

    id: str
    name: str
    created_at: datetime
    last_used_at: datetime | None
    """Rounded to the minute; None: never used."""
    revoked_at: datetime | None


async def create_key(connection: AsyncConnection[TupleRow], name: str) -> str:
    """A new key, told this once."""
    key_id = public_id("", secrets.token_bytes(12), length=12)
    key = f"{_PREFIX}{key_id}_{secrets.token_urlsafe(32)}"
    await connection.execute(
        "insert into api_keys (id, sha256, name) values (%s, %s, %s)", (key_id, _sha256(key), name)
    )
    return key


async def list_keys(connection: AsyncConnection[TupleRow]) -> list[KeyRow]:
    """All, revoked ones too, newest first."""
    query: LiteralString = "select " + _COLUMNS + " from api_keys order by created_at desc, id desc"
    async with connection.cursor(row_factory=class_row(KeyRow)) as cursor:
        return await (await cursor.execute(query)).fetchall()


async def revoke_key(connection: AsyncConnection[TupleRow], key_id: str, *, may_be_last: bool = True) -> bool:
    """Make a key worthless, and with it every session that it signed in; False when there is no such key.

    Raises LastKey for the last usable one unless `may_be_last`. Wants a transaction, which holds other revocations off.
    """
    await lock(connection, AdvisoryLock.API_KEYS)
    if not may_be_last:
        cursor = await connection.execute("select id from api_keys where revoked_at is null limit 2")
        if await cursor.fetchall() == [(key_id,)]:
            raise LastKey("it is the only key that is left")
    cursor = await connection.execute(
        "update api_keys set revoked_at = coalesce(revoked_at, now()) where id = %s", (key_id,)
    )
    await connection.execute("delete from sessions where api_key_id = %s", (key_id,))
    await connection.execute("delete from sign_in_tokens where api_key_id = %s", (key_id,))
    return cursor.rowcount > 0


async def verify_key(connection: AsyncConnection[TupleRow], key: str) -> str | None:
    """The id of a valid key; None for any other text."""
    key_id = id_of(key)
    if key_id is None:
        return None
    cursor = await connection.execute(_VERIFY, (key_id,))
    row = await cursor.fetchone()
    if row is None or not hmac.compare_digest(bytes(row[0]), _sha256(key)):
        return None
    if row[1]:
        await note_use(connection, key_id)
    return key_id


async def note_use(connection: AsyncConnection[TupleRow], key_id: str) -> None:
    """The key was used just now."""
    await connection.execute(_NOTE_USE, (key_id,))


async def living_keys(connection: AsyncConnection[TupleRow], key_ids: Collection[str]) -> set[str]:
    """Those of them that are not revoked."""
    cursor = await connection.execute(
        "select id from api_keys where id = any(%s) and revoked_at is null", (list(key_ids),)
    )
    return {key_id for (key_id,) in await cursor.fetchall()}


def id_of(key: str) -> str | None:
    """The part of a key that is no secret; None for what is no key."""
    if not key.startswith(_PREFIX):
        return None
    key_id, separator, _random = key.removeprefix(_PREFIX).partition("_")
    return key_id if separator and key_id.isascii() and key_id.isalnum() else None


def _sha256(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
