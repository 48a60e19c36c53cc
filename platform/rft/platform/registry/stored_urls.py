"""Orders and registrations of releases that stored URLs as they were given: redacted, and their secrets encrypted.

SQL alone cannot encrypt, so this is done whenever the API starts. What is done already costs one look.
"""

import logging
from typing import cast

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject
from rft.core.secret_urls import with_urls_of
from rft.core.spec import RunSecrets
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.orders.method_urls import secret_urls_of
from rft.platform.orders.redaction import redacted, redacted_stored
from rft.platform.registry.redaction import shown_body
from rft.platform.registry.stored_url_repository import StoredUrlRepository, StoredUrls, Table
from rft.platform.store.database import Database
from rft.platform.store.secret_box import SecretBox, SecretsUnreadable

_LOG = logging.getLogger(__name__)
_BATCH = 100


async def seal_stored_urls(database: Database, box: SecretBox) -> int:
    """How many rows were changed. Rows that somebody else changes right now are left to the next start."""
    done = 0
    for table in Table:
        after = ""
        while True:
            async with database.transaction() as connection:
                rows = await StoredUrlRepository(connection).page(table, after=after, limit=_BATCH)
                for row in rows:
                    done += await _seal(connection, box, table, row)
            if len(rows) < _BATCH:
                break
            after = rows[-1].id
    if done:
        _LOG.info("redacted the URLs of %d orders and registrations of an earlier release", done)
    return done


async def _seal(connection: AsyncConnection[TupleRow], box: SecretBox, table: Table, row: StoredUrls) -> bool:
    """False for a row that stays as it is."""
    rows = StoredUrlRepository(connection)
    if table in (Table.REGRADES, Table.REGISTRATIONS):
        # What is only shown: its secrets are nowhere, or in a sealed column that has the whole of it.
        await rows.set_document(table, row.id, shown_body(row.document))
        return True
    if table is Table.REHEARSALS and row.secrets is None:
        await rows.set_rehearsal(row.id, redacted_stored(row.document), None)  # One that is over needs none any more.
        return True
    secrets = _sealed(box, row)
    if secrets is None:
        return False
    method = redacted_stored(row.document)
    if table is Table.REHEARSALS:
        await rows.set_rehearsal(row.id, method, secrets)
    else:
        request = Jsonb(_shown_request(row.request or {}))
        await LifecycleRepository(connection).seal_urls(row.id, Jsonb(method), request, secrets)
    return True


def _shown_request(request: JsonObject) -> JsonObject:
    shown = cast("JsonObject", redacted(request))
    ordered = request.get("method")
    is_method = isinstance(ordered, dict) and "reinforcement" in ordered
    return {**shown, "method": redacted_stored(cast("JsonObject", ordered))} if is_method else shown


def _sealed(box: SecretBox, row: StoredUrls) -> bytes | None:
    """The row's secrets with its URLs; None where they cannot be read, so that nothing gets lost."""
    try:
        own = RunSecrets() if row.secrets is None else box.unseal(row.secrets)
    except SecretsUnreadable as error:
        _LOG.warning("the URLs of %s stay as they are: %s", row.id, error)
        return None
    return box.seal(with_urls_of(own, secret_urls_of(row.document)))
