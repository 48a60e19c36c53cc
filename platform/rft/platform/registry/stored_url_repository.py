"""Rows whose documents still hold secrets of URLs, as releases before their redaction stored them."""

from enum import StrEnum
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject, Record


class Table(StrEnum):
    """Where orders and registrations are stored."""

    JOBS = "jobs"
    REHEARSALS = "rehearsals"
    REGRADES = "regrades"
    REGISTRATIONS = "registrations"


class StoredUrls(Record):
    """What of a row matters here."""

    id: str
    document: JsonObject
    """The method, the grader, or the body."""
    request: JsonObject | None = None
    """A job's whole order."""
    secrets: bytes | None = None
    """Sealed RunSecrets."""


class StoredUrlRepository:
    """Reads and writes inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(self, table: Table, *, after: str, limit: int) -> list[StoredUrls]:
        """Rows to redact, by id, locked; those that somebody else has locked are passed over."""
        async with self._connection.cursor(row_factory=class_row(StoredUrls)) as cursor:
            await cursor.execute(_SELECTS[table], {"after": after, "limit": limit})
            return await cursor.fetchall()

    async def set_rehearsal(self, rehearsal_id: str, method: JsonObject, secrets: bytes | None) -> None:
        """Its order, redacted."""
        await self._connection.execute(
            _SET_REHEARSAL, {"id": rehearsal_id, "method": Jsonb(method), "secrets": secrets}
        )

    async def set_document(self, table: Table, row_id: str, document: JsonObject) -> None:
        """A regrade's grader or a registration's body, redacted."""
        change: LiteralString = _SET_REGRADE if table is Table.REGRADES else _SET_BODY
        await self._connection.execute(change, {"id": row_id, "document": Jsonb(document)})


_UNREDACTED: LiteralString = (
    """'"[^"]*ur[li]": "[^"]*([?&#](?![^"=&#]*=[*]{10}["&#])(?![*]{10}["&#])[^"&#]|//(?![*]{10}@)[^"/?#@]*@)'"""
)
"""In a document as text: a field that holds a URL, of which something secret is not redacted."""
_PAGE: LiteralString = " and id > %(after)s order by id limit %(limit)s for update skip locked"
_JOBS: LiteralString = (
    "select id, method as document, request, secrets from jobs where (method::text ~* "
    + _UNREDACTED
    + " or request::text ~* "
    + _UNREDACTED
    + ")"
    + _PAGE
)
_REHEARSALS: LiteralString = (
    "select id, method as document, secrets from rehearsals where method::text ~* " + _UNREDACTED + _PAGE
)
_REGRADES: LiteralString = "select id, grader as document from regrades where grader::text ~* " + _UNREDACTED + _PAGE
_BODIES: LiteralString = "select id, body as document from registrations where body::text ~* " + _UNREDACTED + _PAGE
_SET_REHEARSAL: LiteralString = "update rehearsals set method = %(method)s, secrets = %(secrets)s where id = %(id)s"
_SET_REGRADE: LiteralString = "update regrades set grader = %(document)s where id = %(id)s"
_SET_BODY: LiteralString = "update registrations set body = %(document)s where id = %(id)s"
_SELECTS: dict[Table, LiteralString] = {
    Table.JOBS: _JOBS,
    Table.REHEARSALS: _REHEARSALS,
    Table.REGRADES: _REGRADES,
    Table.REGISTRATIONS: _BODIES,
}
