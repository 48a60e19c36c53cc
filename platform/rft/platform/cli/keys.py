"""What `rft keys` does: straight in the platform's database."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from psycopg import AsyncConnection, Error
from psycopg.rows import TupleRow

from rft.platform.api.key_repository import KeyRow, LastKey, create_key, id_of, list_keys, revoke_key
from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.home import Home
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.embedded.supervisor import own_key
from rft.platform.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Revoked:
    """A key that is worthless now."""

    key_id: str
    is_own: bool
    """It was the one that `rft up` keeps for this host's commands."""


def new_key(settings: Settings, name: str) -> str:
    """Create a key; raises StartFailed when the database is not there, like everything here."""
    return _in_database(settings, lambda connection: create_key(connection, name))


def all_keys(settings: Settings) -> list[KeyRow]:
    """Revoked ones too, newest first."""
    return _in_database(settings, list_keys)


def revoke(settings: Settings, text: str, *, may_be_last: bool) -> Revoked:
    """Revoke the key of this id; the whole key names it, too. StartFailed also when there is none, or no other."""
    key_id = id_of(text) or text.removeprefix("rft_")
    try:
        is_known = _in_database(settings, lambda connection: revoke_key(connection, key_id, may_be_last=may_be_last))
    except LastKey as problem:
        raise StartFailed(
            f"{key_id} is the only usable key: make another first (`rft keys create NAME`), or say --last"
        ) from problem
    if not is_known:
        # Not what was typed: it may be most of a key.
        raise StartFailed(f"there is no key '{key_id[:12]}': `rft keys list` shows them")
    return Revoked(key_id, is_own=id_of(own_key(settings.home)) == key_id)


def running_database_url(settings: Settings) -> str:
    """Where the platform's database is, given or embedded; raises StartFailed when the embedded one is not running."""
    if settings.database_url is not None:
        return settings.database_url
    home = Home(settings.home)
    if not home.is_serving():
        raise StartFailed(f"the platform of {home.path} is not running: start it with `rft up`")
    return EmbeddedPostgres(home).url()


def _in_database(settings: Settings, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]]) -> T:
    return asyncio.run(_in_transaction(running_database_url(settings), work))


async def _in_transaction(url: str, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]]) -> T:
    try:
        async with await AsyncConnection.connect(url) as connection:
            return await work(connection)
    except Error as problem:
        raise StartFailed(f"the database cannot be used: {problem}") from problem
