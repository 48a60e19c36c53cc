"""What `rft secrets` does: straight in the platform's database, with the key file of its home."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.api.errors import ApiError
from rft.platform.cli.keys import running_database_url
from rft.platform.embedded.faults import StartFailed
from rft.platform.settings import Settings
from rft.platform.signing import service
from rft.platform.signing.schemas import NewSigningSecret
from rft.platform.store.key_file import KeyFileUnusable
from rft.platform.store.key_rotation import Rotation, RotationRunning, rotate_key
from rft.platform.store.secret_box import KEY_FILE, SecretBox, SecretsUnreadable

T = TypeVar("T")


def active(settings: Settings) -> list[NewSigningSecret]:
    """What calls are signed with, newest first. Raises StartFailed, like everything here."""
    return _in_database(settings, lambda connection, box: service.active_with_ids(connection, box))


def new_signing_secret(settings: Settings) -> NewSigningSecret:
    """A new secret beside the old one."""

    async def rotate(connection: AsyncConnection[TupleRow], box: SecretBox) -> NewSigningSecret:
        await service.active_secrets(connection, box)  # Sealed with another home's key, the new one would be lost.
        return await service.rotate(connection, box)

    return _in_database(settings, rotate)


def retire_signing_secret(settings: Settings, secret_id: str) -> None:
    """Sign nothing with it any more."""
    _in_database(settings, lambda connection, _: service.retire(connection, secret_id))


def rotate_sealing_key(settings: Settings) -> Rotation:
    """Another key for secrets at rest."""
    try:
        return rotate_key(settings.home / KEY_FILE, running_database_url(settings))
    except psycopg.Error as problem:
        raise StartFailed(f"the database cannot be used: {problem}") from problem
    except (OSError, KeyFileUnusable, RotationRunning) as problem:
        raise StartFailed(f"the key was not rotated: {problem}") from problem


def _in_database(settings: Settings, work: Callable[[AsyncConnection[TupleRow], SecretBox], Awaitable[T]]) -> T:
    return asyncio.run(_in_transaction(running_database_url(settings), settings, work))


async def _in_transaction(
    url: str, settings: Settings, work: Callable[[AsyncConnection[TupleRow], SecretBox], Awaitable[T]]
) -> T:
    try:
        async with await AsyncConnection.connect(url) as connection:
            return await work(connection, SecretBox(settings.home / KEY_FILE))
    except psycopg.Error as problem:
        raise StartFailed(f"the database cannot be used: {problem}") from problem
    except ApiError as problem:
        raise StartFailed(problem.message) from problem
    except (OSError, KeyFileUnusable, SecretsUnreadable) as problem:
        raise StartFailed(f"the secrets cannot be read: {problem}") from problem
