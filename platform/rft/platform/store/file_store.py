"""Bytes of files, by key. Small enough a protocol for any object storage."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import obstore
from obstore.exceptions import BaseError as ObstoreError
from obstore.store import LocalStore

from rft.core.dataset_lines import LineSplitter
from rft.core.errors import RftError
from rft.platform.settings import settings

if TYPE_CHECKING:
    from obstore import GetResult

_CHUNK_BYTES = 1 << 20
_PARTS_IN_FLIGHT = 4


class BytesMissing(RftError):
    """The row knows a file whose bytes are gone."""


class BytesNotStored(RftError):
    """The store did not take them: it is full, away, or somebody deleted them meanwhile."""


class BytesUnreadable(RftError):
    """The store does not hand them out: it is away, or its rights were changed."""


class BytesNotDeleted(RftError):
    """The store keeps them: it is away, or its rights were changed."""


class FileStore(Protocol):
    """Streams in, streams out; nothing is ever whole in memory."""

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store the chunks and count their bytes; when the iterator raises, nothing is left behind.

        Not even a power cut loses them once this returns. Raises BytesNotStored.
        """
        ...

    async def open(self, key: str) -> AsyncIterator[bytes]:
        """The bytes in chunks. Raises BytesMissing here already, not while streaming; BytesUnreadable at any time."""
        ...

    async def delete(self, key: str) -> None:
        """Forget the bytes, half-written ones too; fine when there are none. Raises BytesNotDeleted."""
        ...


class LocalFileStore:
    """A directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._store = LocalStore(directory, mkdir=True)

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """See `FileStore.put`."""
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                size += len(chunk)
                yield chunk

        try:
            await obstore.put_async(
                self._store, key, counted(), chunk_size=_CHUNK_BYTES, max_concurrency=_PARTS_IN_FLIGHT
            )
        except ObstoreError as error:
            raise _not_stored(key, error) from error
        try:
            await asyncio.to_thread(self._sync, key)
        except OSError as error:  # Apart from the above: what the chunks raise is not the store's.
            raise _not_stored(key, error) from error
        return size

    async def open(self, key: str) -> AsyncIterator[bytes]:
        """See `FileStore.open`."""
        try:
            found = await obstore.get_async(self._store, key)
        except FileNotFoundError as error:
            raise BytesMissing(f"the bytes of {key} are gone") from error
        except ObstoreError as error:
            raise _unreadable(key, error) from error
        return _bytes_of(key, found)

    async def delete(self, key: str) -> None:
        """See `FileStore.delete`."""
        try:
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, key)
            await asyncio.to_thread(self._delete_unfinished, key)
        except (ObstoreError, OSError) as error:
            raise BytesNotDeleted(f"the bytes of {key} could not be deleted: {_reason(error)}") from error

    def _sync(self, key: str) -> None:
        """The store itself leaves bytes and name to the system's cache. Raises OSError."""
        for path in (self._directory / key, self._directory):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _delete_unfinished(self, key: str) -> None:
        """What a `put` that was killed has left; the store itself neither lists nor deletes it."""
        with suppress(FileNotFoundError):
            for number in count(1):
                (self._directory / f"{key}#{number}").unlink()


async def _bytes_of(key: str, found: "GetResult") -> AsyncIterator[bytes]:
    try:
        async for chunk in found.stream(min_chunk_size=_CHUNK_BYTES):
            yield bytes(chunk)
    except ObstoreError as error:
        raise _unreadable(key, error) from error


def _not_stored(key: str, error: Exception) -> BytesNotStored:
    return BytesNotStored(f"the bytes of {key} were not stored: {error}")


def _unreadable(key: str, error: ObstoreError) -> BytesUnreadable:
    return BytesUnreadable(f"the bytes of {key} cannot be read: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0]  # Behind it stands what is for who debugs the library.


async def delete_or_leave(store: FileStore, key: str) -> None:
    """Delete orphaned bytes; those that cannot be deleted now are left to the sweeper, which says so."""
    with suppress(BytesNotDeleted):
        await store.delete(key)


@cache
def default_store() -> FileStore:
    """This process's store, as configured."""
    return LocalFileStore(settings().files_dir)


async def read_lines(storage_key: str, store: FileStore | None = None) -> AsyncIterator[bytes]:
    """The lines of a stored file without their newline, one after the other; longer than any row may be they
    are cut. Raises BytesMissing and BytesUnreadable."""
    splitter = LineSplitter()
    async for chunk in await (store or default_store()).open(storage_key):
        for line in splitter.feed(chunk):
            yield line
    for line in splitter.end():
        yield line
