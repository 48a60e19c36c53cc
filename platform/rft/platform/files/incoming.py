"""An upload's bytes while they come in: the sweeper spares them as long as somebody sends."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.api.errors import BadRequest, Unavailable
from rft.platform.files.orphaned_blob_repository import OrphanedBlobs
from rft.platform.store.database import Database
from rft.platform.store.file_store import BytesNotDeleted, FileStore

SILENCE_S = 300.0
"""A sender that says nothing for so long has gone."""
_RENEW_S = 60.0
SPARED_FOR = timedelta(minutes=15)
"""Longer than a sender may be silent, so that only what nobody sends any more is swept."""


class Incoming:
    """The bytes of one upload, from its first to the row of its file."""

    def __init__(
        self,
        database: Database,
        store: FileStore,
        storage_key: str,
        *,
        field: str = "file",
        silence_s: float = SILENCE_S,
    ) -> None:
        self._database, self._store, self._storage_key = database, store, storage_key
        self._field, self._silence_s = field, silence_s
        self._spared_s: float | None = None
        self._may_be_kept = False

    async def begin(self) -> None:
        """Before the first byte is stored: the sweeper finds them should this process die."""
        async with self._database.transaction() as connection:
            await OrphanedBlobs(connection).add(self._storage_key, spare_for=SPARED_FOR)
        self._spared_s = time.monotonic()

    async def watched(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The body as it comes. Raises BadRequest when nothing more comes, Unavailable when its bytes were swept."""
        while (chunk := await self._next(body)) is not None:
            if self._spared_s is not None and time.monotonic() - self._spared_s > _RENEW_S:
                await self._renew()
            yield chunk

    async def store_bytes(self, chunks: AsyncIterator[bytes]) -> int:
        """Keep the chunks in the store; returns their length. Raises BytesNotStored and whatever the chunks raise."""
        return await self._store.put(self._storage_key, chunks)

    async def keep(self, connection: AsyncConnection[TupleRow]) -> None:
        """In the transaction that writes the row the bytes belong to: they are its own now. Raises Unavailable."""
        if not await OrphanedBlobs(connection).forget(self._storage_key):
            raise _swept()
        self._may_be_kept = True

    async def drop(self) -> None:
        """Delete the bytes unless they were kept. Where this fails, the sweeper does it."""
        if self._spared_s is None:
            return
        with suppress(psycopg.OperationalError, BytesNotDeleted):
            if not self._may_be_kept:
                await self._store.delete(self._storage_key)
            async with self._database.transaction() as connection:
                # Whoever kept them may have committed and not know it: then nobody has to look after them any more.
                if await OrphanedBlobs(connection).forget(self._storage_key) and self._may_be_kept:
                    await self._store.delete(self._storage_key)

    async def _next(self, body: AsyncIterator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout(self._silence_s):
                return await anext(body, None)
        except TimeoutError as error:
            raise BadRequest("The upload was broken off.", param=self._field, code="invalid_form") from error

    async def _renew(self) -> None:
        async with self._database.transaction() as connection:
            if not await OrphanedBlobs(connection).spare(self._storage_key, SPARED_FOR):
                raise _swept()
        self._spared_s = time.monotonic()


def _swept() -> Unavailable:
    return Unavailable("The upload stood still for too long and was given up; send it again.", code="upload_given_up")
