"""The schema, as numbered SQL files, and what applies them."""

import hashlib
import logging
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import LiteralString, cast

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import RftError
from rft.platform.store.advisory_locks import AdvisoryLock, locked
from rft.platform.store.database import with_timeouts

_LOG = logging.getLogger(__name__)
_NUMBERED = re.compile(r"^\d{4}_[a-z0-9_]+\.sql$")


class MigrationRefused(RftError):
    """The database's history and the shipped files disagree; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One SQL file."""

    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Fingerprint of the file as it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def shipped() -> list[Migration]:
    """The files of this package, in order."""
    folder = files(__name__)
    names = sorted(entry.name for entry in folder.iterdir() if _NUMBERED.match(entry.name))
    return [Migration(name=name, sql=folder.joinpath(name).read_text(encoding="utf-8")) for name in names]


async def migrate(database_url: str, migrations: list[Migration] | None = None) -> list[str]:
    """Apply what is missing, one transaction per file; returns the names applied now.

    Safe to call from several processes at once. Raises MigrationRefused when an applied file was
    edited afterwards, or when the database knows a file that this version does not ship.
    """
    wanted = shipped() if migrations is None else migrations
    async with (
        await AsyncConnection[TupleRow].connect(with_timeouts(database_url), autocommit=True) as connection,
        locked(connection, AdvisoryLock.MIGRATION),
    ):
        applied = await _history(connection)
        _refuse_if_rewritten(applied, wanted)
        missing = [migration for migration in wanted if migration.name not in applied]
        for migration in missing:
            await _apply(connection, migration)
    return [migration.name for migration in missing]


async def _history(connection: AsyncConnection[TupleRow]) -> dict[str, str]:
    await connection.execute(
        "create table if not exists schema_migrations ("
        " name text primary key, sha256 text not null, applied_at timestamptz not null default now())"
    )
    rows = await (await connection.execute("select name, sha256 from schema_migrations")).fetchall()
    return {name: sha256 for name, sha256 in rows}


def _refuse_if_rewritten(applied: dict[str, str], wanted: list[Migration]) -> None:
    known = {migration.name: migration.sha256 for migration in wanted}
    for name, sha256 in applied.items():
        if name not in known:
            raise MigrationRefused(f"the database was migrated by a newer version: {name} is unknown here")
        if known[name] != sha256:
            raise MigrationRefused(f"{name} was edited after it was applied; write a new migration instead")


async def _apply(connection: AsyncConnection[TupleRow], migration: Migration) -> None:
    try:
        async with connection.transaction():
            # The text comes from our own package, never from a request.
            await connection.execute(cast(LiteralString, migration.sql))
            await connection.execute(
                "insert into schema_migrations (name, sha256) values (%s, %s)", (migration.name, migration.sha256)
            )
    except psycopg.Error as error:
        raise MigrationRefused(f"{migration.name} failed and was rolled back: {error}") from error
    _LOG.info("applied migration %s", migration.name)
