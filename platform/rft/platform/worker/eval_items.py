"""The items of a run, from its file or its order, one after the other."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import cast

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.dataset import RowProblem, parse_object
from rft.core.errors import RftError
from rft.platform.evals.run_repository import RunRow
from rft.platform.files.repository import FileRepository
from rft.platform.store.file_store import BytesMissing, FileStore, read_lines

_SHOWN_PROBLEMS = 5
_LINES_AT_ONCE = 500
"""Then the heartbeat and a cancellation have their turn."""


class UnusableItems(RftError):
    """The run's items cannot be read: nothing is graded."""


@dataclass(frozen=True, slots=True)
class EvalItem:
    """One item."""

    index: int
    item: JsonObject
    sample: JsonObject | None
    """What it brings along."""


@dataclass(frozen=True, slots=True)
class EvalItems:
    """Where a run's items are."""

    run: RunRow
    storage_key: str | None
    """Of their file; None where they came with the order."""
    file_store: FileStore

    @classmethod
    async def of(cls, connection: AsyncConnection[TupleRow], run: RunRow, file_store: FileStore) -> "EvalItems":
        """Raises UnusableItems."""
        if run.file_id is None:
            return cls(run, None, file_store)
        file = await FileRepository(connection).get_kept(run.file_id)
        if file is None:
            raise UnusableItems(f"The file {run.file_id} was deleted or has expired.")
        return cls(run, file.storage_key, file_store)

    async def count(self) -> int:
        """How many there are. Raises UnusableItems, which names the lines of the file that are none."""
        shown: list[RowProblem] = []
        count = bad = 0
        async for item in self._read():
            if not isinstance(item, RowProblem):
                count += 1
                continue
            bad += 1
            if len(shown) < _SHOWN_PROBLEMS:  # All lines of a large file may be bad.
                shown.append(item)
        if shown:
            told = "; ".join(map(str, shown))
            more = f"; and {bad - len(shown)} more" if bad > len(shown) else ""
            raise UnusableItems(f"The file {self.run.file_id} cannot be used: {told}{more}.")
        if not count:
            raise UnusableItems(f"The file {self.run.file_id} has no items.")
        return count

    async def each(self) -> AsyncIterator[EvalItem]:
        """One after the other, as counted. Raises UnusableItems."""
        async for item in self._read():
            if isinstance(item, RowProblem):
                raise UnusableItems(f"The file {self.run.file_id} has changed: {item}.")
            yield item

    async def _read(self) -> AsyncIterator[EvalItem | RowProblem]:
        """Raises UnusableItems."""
        if self.storage_key is None:
            source = cast("JsonObject", self.run.data_source["source"])
            for index, row in enumerate(cast("list[JsonObject]", source["content"])):
                yield EvalItem(index, cast("JsonObject", row["item"]), cast("JsonObject | None", row.get("sample")))
            return
        index = number = 0
        try:
            async for line in read_lines(self.storage_key, self.file_store):
                number += 1
                if number % _LINES_AT_ONCE == 0:  # A chunk of the file may hold very many.
                    await asyncio.sleep(0)
                if line.strip():
                    item = _to_item(line, number, index)
                    yield item
                    index += isinstance(item, EvalItem)
        except BytesMissing as error:
            raise UnusableItems(f"The bytes of the file {self.run.file_id} are gone.") from error


def _to_item(line: bytes, number: int, index: int) -> EvalItem | RowProblem:
    row = parse_object(line, line_number=number)
    if isinstance(row, RowProblem):
        return row
    item, sample = row.get("item"), row.get("sample")
    if not isinstance(item, dict):
        return RowProblem(line=number, path="item", reason='missing; a line is {"item": {...}}')
    if sample is not None and not isinstance(sample, dict):
        return RowProblem(line=number, path="sample", reason="must be an object")
    return EvalItem(index, item, sample)
