"""Expired files: invisible at once, and swept away with their bytes soon after."""

import asyncio
import logging

import psycopg

from rft.platform.files.repository import FileRepository
from rft.platform.files.storage import FileStore
from rft.platform.store.database import Database

_LOG = logging.getLogger(__name__)
SWEEP_S = 60.0
_AT_ONCE = 100


async def sweep_forever(database: Database, store: FileStore) -> None:
    """Sweep every minute until cancelled. A database that is away is waited for."""
    while True:
        try:
            while await sweep_expired(database, store) == _AT_ONCE:
                continue
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            _LOG.warning("expired files could not be swept: %s", error)
        except Exception:
            # It must outlive any bug of its own: without it the disk fills.
            _LOG.exception("the sweep of expired files stumbled")
        await asyncio.sleep(SWEEP_S)


async def sweep_expired(database: Database, store: FileStore) -> int:
    """Remove up to a hundred expired files; returns how many. Several processes may sweep at once."""
    async with database.transaction() as connection:
        files = FileRepository(connection)
        expired = await files.lock_expired(limit=_AT_ONCE)
        for row in expired:
            # The bytes first: whatever breaks in between, the row remembers that they are to go.
            await store.delete(row.storage_key)
            await files.delete(row.id)
    return len(expired)
