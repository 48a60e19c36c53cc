"""What commands do on the platform's host: this call's settings, and keys and secrets straight in the database."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.api.errors import ApiError
from rft.platform.api.key_repository import KeyRow, LastKey, create_key, id_of, list_keys, revoke_key
from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.home import Home
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.embedded.supervisor import own_key
from rft.platform.settings import Settings
from rft.platform.signing import service
from rft.platform.signing.schemas import NewSigningSecret
from rft.platform.store.key_file import KeyFileUnusable
from rft.platform.store.key_rotation import Rotation, RotationRunning, rotate_key
from rft.platform.store.secret_box import KEY_FILE, SecretBox, SecretsUnreadable

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


def signing_secrets(settings: Settings) -> list[NewSigningSecret]:
    """What calls are signed with, newest first."""
    return _with_secrets(settings, lambda connection, box: service.active_with_ids(connection, box))


def new_signing_secret(settings: Settings) -> NewSigningSecret:
    """A new secret beside the old one."""

    async def rotate(connection: AsyncConnection[TupleRow], box: SecretBox) -> NewSigningSecret:
        await service.active_secrets(connection, box)  # Sealed with another home's key, the new one would be lost.
        return await service.rotate(connection, box)

    return _with_secrets(settings, rotate)


def retire_signing_secret(settings: Settings, secret_id: str) -> None:
    """Sign nothing with it any more."""
    _with_secrets(settings, lambda connection, _: service.retire(connection, secret_id))


def rotate_sealing_key(settings: Settings) -> Rotation:
    """Another key for secrets at rest."""
    try:
        return rotate_key(settings.home / KEY_FILE, running_database_url(settings))
    except psycopg.Error as problem:
        raise StartFailed(f"the database cannot be used: {problem}") from problem
    except (OSError, KeyFileUnusable, RotationRunning) as problem:
        raise StartFailed(f"the key was not rotated: {problem}") from problem


def running_database_url(settings: Settings) -> str:
    """Where the platform's database is, given or embedded; raises StartFailed when the embedded one is not running."""
    if settings.database_url is not None:
        return settings.database_url
    home = Home(settings.home)
    if not home.is_serving():
        raise StartFailed(f"the platform of {home.path} is not running: start it with `rft up`")
    return EmbeddedPostgres(home).url()


def _with_secrets(settings: Settings, work: Callable[[AsyncConnection[TupleRow], SecretBox], Awaitable[T]]) -> T:
    try:
        return _in_database(settings, lambda connection: work(connection, SecretBox(settings.home / KEY_FILE)))
    except ApiError as problem:
        raise StartFailed(problem.message) from problem
    except (OSError, KeyFileUnusable, SecretsUnreadable) as problem:
        raise StartFailed(f"the secrets cannot be read: {problem}") from problem


def _in_database(settings: Settings, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]]) -> T:
    return asyncio.run(_in_transaction(running_database_url(settings), work))


async def _in_transaction(url: str, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]]) -> T:
    try:
        async with await AsyncConnection.connect(url) as connection:
            return await work(connection)
    except psycopg.Error as problem:
        raise StartFailed(f"the database cannot be used: {problem}") from problem
