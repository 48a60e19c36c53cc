"""Expired files: invisible at once, and swept away with their bytes soon after. So are bytes that belong to no file."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import psycopg

from rft.platform.files.orphaned_blob_repository import OrphanedBlobs
from rft.platform.files.repository import FileRepository
from rft.platform.store.database import Database
from rft.platform.store.deleted_cursors import forget_deleted_cursors
from rft.platform.store.file_store import BytesNotDeleted, FileStore

_LOG = logging.getLogger(__name__)
SWEEP_S = 60.0
AT_ONCE = 100
_TRY_AGAIN = timedelta(hours=1)


Sweep = Callable[[Database, FileStore], Awaitable[int]]
"""Returns how much it swept: a hundred means that there may be more."""


async def sweep_forever(database: Database, store: FileStore, *others: Sweep) -> None:
    """Sweep every minute until cancelled, `others` first. A database that is away is waited for."""
    while True:
        try:
            for sweep in (*others, sweep_expired, sweep_orphaned_blobs, sweep_deleted_cursors):
                while await sweep(database, store) == AT_ONCE:
                    continue
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            _LOG.warning("files could not be swept: %s", error)
        except Exception:
            # It must go on after any bug of its own: without it the disk fills up.
            _LOG.exception("the sweep of files stumbled")
        await asyncio.sleep(SWEEP_S)


async def sweep_expired(database: Database, store: FileStore) -> int:
    """Remove up to a hundred expired files; returns how many. Several processes may sweep at once."""
    async with database.transaction() as connection:
        files = FileRepository(connection)
        removed = 0
        for row in await files.lock_expired(limit=AT_ONCE):
            if await files.unfinished_user(row.id) is not None:
                continue  # Whatever was made while we looked keeps it; the sweep after its end removes it.
            # The bytes first: whatever breaks in between, the row remembers that they are to go.
            if not await _is_deleted(row.storage_key, store):
                await OrphanedBlobs(connection).add(row.storage_key, spare_for=_TRY_AGAIN)
            removed += await files.delete(row.id)
    return removed


async def sweep_orphaned_blobs(database: Database, store: FileStore) -> int:
    """Remove the bytes of up to a hundred uploads that were cut off, or of deleted files; returns how many."""
    async with database.transaction() as connection:
        orphaned = OrphanedBlobs(connection)
        due = await orphaned.lock_due(limit=AT_ONCE)
        for storage_key in due:
            # An upload that is still coming in waits here, and finds that its bytes are deleted.
            if await _is_deleted(storage_key, store):
                await orphaned.forget(storage_key)
            else:
                await orphaned.spare(storage_key, _TRY_AGAIN)
    return len(due)


async def _is_deleted(storage_key: str, store: FileStore) -> bool:
    """One that cannot be deleted, as in a folder whose rights were changed, must not keep the others."""
    try:
        await store.delete(storage_key)
    except BytesNotDeleted as error:
        _LOG.warning("%s; it is tried again in %s", error, _TRY_AGAIN)
        return False
    return True


async def sweep_deleted_cursors(database: Database, _store: FileStore) -> int:
    """Delete up to a hundred cursors of objects that were deleted long ago; returns how many."""
    async with database.transaction() as connection:
        return await forget_deleted_cursors(connection, limit=AT_ONCE)
