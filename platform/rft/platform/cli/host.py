"""What commands do on the platform's host: keys and secrets straight in the database."""

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
class Host:
    """The platform of these settings. Every method raises StartFailed, at least when its database is not there."""

    settings: Settings

    def new_key(self, name: str) -> str:
        """Create a key."""
        return self._in_database(lambda connection: create_key(connection, name))

    def api_keys(self) -> list[KeyRow]:
        """Revoked ones too, newest first."""
        return self._in_database(list_keys)

    def revoke(self, text: str, *, may_be_last: bool) -> tuple[str, bool]:
        """Revoke the key of this id; the whole key names it, too. Its id, and whether it was this host's own.

        StartFailed also when there is none, or no other.
        """
        key_id = id_of(text) or text.removeprefix("rft_")
        try:
            is_known = self._in_database(lambda connection: revoke_key(connection, key_id, may_be_last=may_be_last))
        except LastKey as problem:
            raise StartFailed(
                f"{key_id} is the only usable key: make another first (`rft keys create NAME`), or say --last"
            ) from problem
        if not is_known:
            # Not what was typed: it may be most of a key.
            raise StartFailed(f"there is no key '{key_id[:12]}': `rft keys list` shows them")
        return key_id, id_of(own_key(self.settings.home)) == key_id

    def signing_secrets(self) -> list[NewSigningSecret]:
        """What calls are signed with, newest first."""
        return self._with_secrets(service.active_with_ids)

    def new_signing_secret(self) -> NewSigningSecret:
        """A new secret beside the old one."""

        async def rotate(connection: AsyncConnection[TupleRow], box: SecretBox) -> NewSigningSecret:
            await service.active_secrets(connection, box)  # Sealed with another home's key, the new one would be lost.
            return await service.rotate(connection, box)

        return self._with_secrets(rotate)

    def retire_signing_secret(self, secret_id: str) -> None:
        """Sign nothing with it any more."""
        self._with_secrets(lambda connection, _: service.retire(connection, secret_id))

    def rotate_sealing_key(self) -> Rotation:
        """Another key for secrets at rest."""
        try:
            return rotate_key(self.settings.home / KEY_FILE, self._database_url())
        except psycopg.Error as problem:
            raise StartFailed(f"the database cannot be used: {problem}") from problem
        except (OSError, KeyFileUnusable, RotationRunning) as problem:
            raise StartFailed(f"the key was not rotated: {problem}") from problem

    def _database_url(self) -> str:
        if self.settings.database_url is not None:
            return self.settings.database_url
        home = Home(self.settings.home)
        if not home.is_serving():
            raise StartFailed(f"the platform of {home.path} is not running: start it with `rft up`")
        return EmbeddedPostgres(home).url()

    def _with_secrets(self, work: Callable[[AsyncConnection[TupleRow], SecretBox], Awaitable[T]]) -> T:
        try:
            return self._in_database(lambda connection: work(connection, SecretBox(self.settings.home / KEY_FILE)))
        except ApiError as problem:
            raise StartFailed(problem.message) from problem
        except (OSError, KeyFileUnusable, SecretsUnreadable) as problem:
            raise StartFailed(f"the secrets cannot be read: {problem}") from problem

    def _in_database(self, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]]) -> T:
        async def in_transaction() -> T:
            async with await AsyncConnection.connect(self._database_url()) as connection:
                return await work(connection)

        try:
            return asyncio.run(in_transaction())
        except psycopg.Error as problem:
            raise StartFailed(f"the database cannot be used: {problem}") from problem
