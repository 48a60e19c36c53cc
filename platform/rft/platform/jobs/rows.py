"""Rows of a job's files, as they lie in the file store."""

from collections.abc import AsyncIterator, Collection

from rft.core.dataset import DatasetRow, parse_row
from rft.core.errors import RftError
from rft.core.rollout import Split
from rft.platform.files.repository import FileRepository
from rft.platform.jobs.repository import JobRow
from rft.platform.lifecycle.machine import UNFINISHED
from rft.platform.store.database import Database
from rft.platform.store.file_store import BytesMissing, FileStore, read_lines

_FILES = {Split.TRAIN: "training", Split.VALID: "validation", Split.TEST: "test"}


class RowsGone(RftError):
    """A file of a job is no longer what it was trained on."""

    def __init__(self, split: Split, reason: str) -> None:
        super().__init__(f"The job's {_FILES[split]} file {reason}")
        self.param = f"{_FILES[split]}_file"


def file_of(job: JobRow, split: Split) -> str | None:
    """The file that holds the rows of a split."""
    match split:
        case Split.TRAIN:
            return job.training_file
        case Split.VALID:
            return job.validation_file
        case Split.TEST:
            return job.test_file or job.validation_file


async def rows_of(
    database: Database, file_store: FileStore, job: JobRow, split: Split, wanted: Collection[int]
) -> AsyncIterator[tuple[int, DatasetRow]]:
    """The wanted rows of a split, with their indices, in order. Raises RowsGone."""
    file_id = file_of(job, split)
    async with database.transaction() as connection:
        files = FileRepository(connection)
        get = files.get_kept if job.status in UNFINISHED else files.get
        file = None if file_id is None else await get(file_id)
    if file is None:
        raise RowsGone(split, "was deleted")
    index = line_number = 0
    last = max(wanted, default=-1)
    try:
        async for line in read_lines(file.storage_key, file_store):
            line_number += 1
            if not line.strip():
                continue
            if index in wanted:
                row = parse_row(line, line_number=line_number, index=index)
                if isinstance(row, DatasetRow):
                    yield index, row
            index += 1
            if index > last:
                return
    except BytesMissing:
        raise RowsGone(split, "was deleted") from None
