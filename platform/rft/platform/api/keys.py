"""API keys: `rft_<id>_<random>`. Only a SHA-256 of the key is stored; 256 random bits need no slow hash."""

import hashlib
import hmac
import secrets

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.ids import public_id

_PREFIX = "rft_"


async def create_key(connection: AsyncConnection[TupleRow], name: str) -> str:
    """A new key, told this once."""
    key_id = public_id("", secrets.token_bytes(12), length=12)
    key = f"{_PREFIX}{key_id}_{secrets.token_urlsafe(32)}"
    await connection.execute(
        "insert into api_keys (id, sha256, name) values (%s, %s, %s)", (key_id, _sha256(key), name)
    )
    return key


async def revoke_key(connection: AsyncConnection[TupleRow], key_id: str) -> bool:
    """Make a key worthless; False when there is no such key."""
    cursor = await connection.execute(
        "update api_keys set revoked_at = coalesce(revoked_at, now()) where id = %s", (key_id,)
    )
    return cursor.rowcount > 0


async def verify_key(connection: AsyncConnection[TupleRow], key: str) -> str | None:
    """The id of a valid key; None for any other text."""
    key_id = _key_id(key)
    if key_id is None:
        return None
    cursor = await connection.execute("select sha256 from api_keys where id = %s and revoked_at is null", (key_id,))
    row = await cursor.fetchone()
    if row is None or not hmac.compare_digest(bytes(row[0]), _sha256(key)):
        return None
    return key_id


def _key_id(key: str) -> str | None:
    if not key.startswith(_PREFIX):
        return None
    key_id, separator, _random = key.removeprefix(_PREFIX).partition("_")
    return key_id if separator and key_id.isascii() and key_id.isalnum() else None


def _sha256(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
