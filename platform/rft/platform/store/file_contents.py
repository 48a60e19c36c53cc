"""Files of the platform's own making: their bytes lie in the database, beside their row."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

IN_DATABASE = "database"
"""Storage key of files whose bytes lie in `file_contents`."""
_INSERT_FILE: LiteralString = (
    "insert into files (id, filename, purpose, bytes, status, storage_key, created_at)"
    " values (%s, %s, %s, %s, 'processed', %s, clock_timestamp()) on conflict (id) do nothing"
)


async def insert_with_content(
    connection: AsyncConnection[TupleRow], *, id: str, filename: str, purpose: str, content: bytes
) -> bool:
    """A file of our own making, its bytes beside its row. False when it was there already."""
    cursor = await connection.execute(_INSERT_FILE, (id, filename, purpose, len(content), IN_DATABASE))
    if cursor.rowcount == 0:
        return False
    await connection.execute("insert into file_contents (file_id, content) values (%s, %s)", (id, content))
    return True


async def content_of(connection: AsyncConnection[TupleRow], file_id: str) -> bytes | None:
    """The bytes of a file that lies in the database."""
    cursor = await connection.execute("select content from file_contents where file_id = %s", (file_id,))
    row = await cursor.fetchone()
    return None if row is None else row[0]
