"""Every bad line of a stored file, page by page; a report tells only the first."""

import asyncio
import re

from rft.core.dataset import RowProblem
from rft.core.dataset_report import DatasetCheck
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.files.repository import FileRow
from rft.platform.files.schemas import ProblemObject
from rft.platform.files.service import find
from rft.platform.files.storage import FileStore
from rft.platform.files.uploading import FINE_TUNE
from rft.platform.store.unit_of_work import unit_of_work

_ID = re.compile(r"line-([1-9][0-9]{0,17})")


async def list_problems(services: Services, file_id: str, *, after: str | None, limit: int) -> ListPage[ProblemObject]:
    """One page, by line; the file is read again up to its end. Raises NotFound, BadRequest."""
    async with unit_of_work(services.database, services.ringer) as uow:
        row = await find(uow, file_id)
    if row.purpose != FINE_TUNE:
        words = f"File {file_id} was uploaded for '{row.purpose}'; only files for '{FINE_TUNE}' are read."
        raise BadRequest(words, param="id", code="invalid_file_purpose")
    found = await _problems(services.file_store, row, after_line=0 if after is None else _line_of(after), limit=limit)
    return to_page([_to_object(problem) for problem in found], limit=limit)


async def _problems(store: FileStore, row: FileRow, *, after_line: int, limit: int) -> list[RowProblem]:
    """Up to one more than `limit`."""
    found: list[RowProblem] = []

    def keep(problem: RowProblem) -> None:
        if problem.line > after_line and len(found) <= limit:
            found.append(problem)

    check = DatasetCheck(shown=0, on_problem=keep)
    async for chunk in await store.open(row.storage_key):
        await asyncio.to_thread(check.feed, chunk)
        if len(found) > limit:
            return found
    check.end()
    return found


def _line_of(after: str) -> int:
    match = _ID.fullmatch(after)
    if match is None:
        raise unknown_cursor(after)
    return int(match[1])


def _to_object(problem: RowProblem) -> ProblemObject:
    # Without a job's tools to compare with, a line has one problem at most.
    return ProblemObject(id=f"line-{problem.line}", line=problem.line, path=problem.path, reason=problem.reason)
