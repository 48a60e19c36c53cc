"""The bad lines of a stored file, page by page; a report tells only the first."""

import re

from rft.core.dataset import RowProblem
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.files.checking import DatasetChecks
from rft.platform.files.schemas import ProblemObject
from rft.platform.files.service import find
from rft.platform.files.uploading import FINE_TUNE
from rft.platform.store.unit_of_work import unit_of_work

_ID = re.compile(r"line-([1-9][0-9]{0,17})")


async def list_problems(services: Services, file_id: str, *, after: str | None, limit: int) -> ListPage[ProblemObject]:
    """One page, by line; the file is read again up to there. Raises NotFound, BadRequest."""
    async with unit_of_work(services.database, services.enqueuer) as uow:
        row = await find(uow, file_id)
    if row.purpose != FINE_TUNE:
        message = f"File {file_id} was uploaded for '{row.purpose}'; only files for '{FINE_TUNE}' are read."
        raise BadRequest(message, param="id", code="invalid_file_purpose")
    after_line = 0 if after is None else _line_of(after)
    found = await DatasetChecks(services.dataset_slots).problems(
        services.file_store, row.storage_key, after_line=after_line, limit=limit + 1, size=row.bytes
    )
    return to_page([_to_object(problem) for problem in found], limit=limit)


def _line_of(after: str) -> int:
    match = _ID.fullmatch(after)
    if match is None:
        raise unknown_cursor(after)
    return int(match[1])


def _to_object(problem: RowProblem) -> ProblemObject:
    # Without a job's tools to compare with, a line has one problem at most.
    return ProblemObject(id=f"line-{problem.line}", line=problem.line, path=problem.path, reason=problem.reason)
