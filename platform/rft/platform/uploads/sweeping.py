"""Uploads that nobody completed: their parts are swept."""

from rft.platform.files.sweeping import AT_ONCE
from rft.platform.store.database import Database
from rft.platform.store.file_store import FileStore
from rft.platform.uploads.repository import UploadRepository


async def sweep_uploads(database: Database, _store: FileStore) -> int:
    """Expire up to a hundred uploads and forget as many old ones; returns the larger number.

    The bytes of their parts are orphaned then: `sweep_orphaned_blobs` removes them.
    """
    async with database.transaction() as connection:
        uploads = UploadRepository(connection)
        return max(await uploads.expire(limit=AT_ONCE), await uploads.forget(limit=AT_ONCE))
