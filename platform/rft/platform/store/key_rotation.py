"""Another key for the secrets at rest: every sealed column is sealed again, and the key before the old one is dropped.

Killed at any point, everything stays readable: a key leaves the file when nothing is sealed with it any more. The last
two stay: another host that shares the folder may seal with an old one for a minute more, and the last may be that of a
rotation that was broken off.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from psycopg import sql

from rft.core.errors import RftError
from rft.platform.store import key_file
from rft.platform.store.advisory_locks import AdvisoryLock, try_lock_connection
from rft.platform.store.database import with_timeouts

SETTLE_S = 10.0
_KEPT = 2
"""Keys beside the newest."""
"""Longer than a request may take from sealing its secrets to committing them."""


class RotationRunning(RftError):
    """Somebody else rotates the key right now."""


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """One column that holds what `SecretBox` sealed; null where a row has no secrets."""

    table: str
    column: str
    key: str = "id"
    """The table's primary key."""


SEALED_COLUMNS: tuple[SealedColumn, ...] = (
    SealedColumn("jobs", "secrets"),
    SealedColumn("signing_secrets", "sealed"),
    SealedColumn("registrations", "sealed"),
    SealedColumn("rehearsals", "secrets"),
    SealedColumn("evals", "sealed"),
    SealedColumn("providers", "sealed"),
    SealedColumn("eval_runs", "sealed"),
)
"""Every one there is: a new sealed column is added here, or its rows are lost with the next rotation."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation did."""

    resealed: int
    """Values sealed with the new key."""
    unreadable: int
    """Values that none of the keys opened; left as they were."""


def rotate_key(
    path: Path,
    database_url: str,
    *,
    settle_s: float = SETTLE_S,
    sleep: Callable[[float], None] = time.sleep,
    columns: tuple[SealedColumn, ...] = SEALED_COLUMNS,
) -> Rotation:
    """Put a new key in front, seal everything with it, drop all but the last two. Running processes follow the file.

    Waits `settle_s` before the second pass: what a request sealed with the old key may not be stored yet in the first.
    Raises RotationRunning, KeyFileUnusable, OSError, psycopg.Error; the next rotation finishes what one began.
    """
    with psycopg.connect(with_timeouts(database_url), autocommit=True) as connection:
        if not try_lock_connection(connection, AdvisoryLock.KEY_ROTATION):
            raise RotationRunning("another rotation is under way")
        keys = [Fernet.generate_key(), *key_file.read(path)]
        key_file.replace(path, keys)
        keyring = _Keyring(keys)
        first = _reseal_all(connection, keyring, columns)
        sleep(settle_s)
        second = _reseal_all(connection, keyring, columns)
        key_file.replace(path, keys[: 1 + _KEPT])
    return Rotation(first.resealed + second.resealed, second.unreadable)


class _Keyring:
    """The new key, and all of them."""

    def __init__(self, keys: list[bytes]) -> None:
        self._newest = Fernet(keys[0])
        self._all = MultiFernet([Fernet(key) for key in keys])

    def resealed(self, sealed: bytes) -> bytes | None:
        """The same secret under the newest key; None when it is already. Raises InvalidToken."""
        try:
            self._newest.decrypt(sealed)
        except InvalidToken:
            return self._all.rotate(sealed)
        return None


def _reseal_all(
    connection: psycopg.Connection[tuple[object, ...]], keyring: _Keyring, columns: tuple[SealedColumn, ...]
) -> Rotation:
    tables = [_reseal(connection, keyring, column) for column in columns]
    return Rotation(sum(table.resealed for table in tables), sum(table.unreadable for table in tables))


def _reseal(connection: psycopg.Connection[tuple[object, ...]], keyring: _Keyring, column: SealedColumn) -> Rotation:
    """One column in one transaction."""
    names = {name: sql.Identifier(getattr(column, name)) for name in ("table", "column", "key")}
    select = sql.SQL("select {key}, {column} from {table} where {column} is not null for update").format(**names)
    update = sql.SQL("update {table} set {column} = %s where {key} = %s").format(**names)
    changed: list[tuple[bytes, object]] = []
    unreadable = 0
    with connection.transaction():
        for key, sealed in connection.execute(select):
            try:
                fresh = keyring.resealed(bytes(sealed))  # pyright: ignore[reportArgumentType]
            except InvalidToken:
                unreadable += 1
                continue
            if fresh is not None:
                changed.append((fresh, key))
        connection.cursor().executemany(update, changed)
    return Rotation(len(changed), unreadable)
