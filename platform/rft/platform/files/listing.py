"""The list of files. Its pages are long, so they are made and sent piece by piece: neither the page nor its files are
ever whole in memory, no connection is kept while a slow caller reads, and other requests get their turn in between."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from pydantic_core import to_json

from rft.platform.api.pagination import unknown_cursor
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.files.service import to_file_object
from rft.platform.store.database import Database
from rft.platform.store.unit_of_work import reading

PIECE = 100
"""Files that are read and written at a time."""


@dataclass(frozen=True, slots=True)
class FileListing:
    """What is asked for."""

    database: Database
    limit: int
    purpose: str | None
    order: Literal["asc", "desc"]

    async def document(self, after: str | None) -> AsyncIterator[bytes]:
        """The page as JSON, in pieces. Its first files are read here. Raises BadRequest, psycopg.OperationalError."""
        async with reading(self.database) as uow:
            files = FileRepository(uow.connection)
            if after is not None and not await files.has_place(after):
                raise unknown_cursor(after)
            first = await files.page(after=after, limit=self._wanted(0), purpose=self.purpose, order=self.order)
        return self._pieces(first)

    async def _pieces(self, rows: list[FileRow]) -> AsyncIterator[bytes]:
        first_id, last_id, told, has_more = None, None, 0, False
        wanted = self._wanted(0)
        yield b'{"object":"list","data":['
        while rows:
            shown = rows[: self.limit - told]
            has_more = len(rows) > len(shown)
            if shown:
                first_id, last_id = first_id or shown[0].id, shown[-1].id
                documents = [to_file_object(row).model_dump_json().encode() for row in shown]
                yield (b"," if told else b"") + b",".join(documents)
                told += len(shown)
            if has_more or len(rows) < wanted:
                break
            wanted = self._wanted(told)
            rows = await self._next(rows[-1], wanted)
        yield b"]," + to_json({"has_more": has_more, "first_id": first_id, "last_id": last_id})[1:]

    async def _next(self, last: FileRow, wanted: int) -> list[FileRow]:
        async with reading(self.database) as uow:
            return await FileRepository(uow.connection).page_after(
                (last.created_at, last.id), limit=wanted, purpose=self.purpose, order=self.order
            )

    def _wanted(self, told: int) -> int:
        """How many to read when so many are told: one more than the page takes says whether there are more."""
        return min(PIECE, self.limit - told + 1)
