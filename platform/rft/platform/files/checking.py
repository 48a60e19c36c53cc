"""Reading a stored dataset for the API: a large one in a process of its own, few of them at a time, so that no file
costs the requests beside it their processor."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

from rft.core.base import Record
from rft.core.dataset import RowProblem
from rft.core.dataset_report import DatasetCheck, DatasetReport
from rft.core.errors import RftError
from rft.platform.store.file_store import FileStore

_SMALL_BYTES = 256 << 10
"""Up to here a thread is done sooner than a process has started."""
CHILD = "rft.platform.files.checking_process"


class CheckBroke(RftError):
    """The process that read the file ended without a result."""


class WantedProblems(Record):
    """Which problems are to be told."""

    after_line: int = 0
    limit: int = 0
    """How many at most; what lies behind them is not read. 0: none, and the whole file is read for its report."""


class Checked(Record):
    """What came of it."""

    report: DatasetReport
    """Of the lines that were read."""
    problems: tuple[RowProblem, ...] = ()
    """Those that were wanted."""


class DatasetReading:
    """One `DatasetCheck` and the problems it is asked for."""

    def __init__(self, wanted: WantedProblems) -> None:
        self._wanted, self._found = wanted, list[RowProblem]()
        self._check = DatasetCheck(on_problem=self._keep)

    @property
    def is_over(self) -> bool:
        """Whether nothing that follows can change the result."""
        return self._check.is_over or 0 < self._wanted.limit <= len(self._found)

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the file."""
        self._check.feed(chunk)

    def end(self) -> Checked:
        """No more bytes follow, or they are of no interest."""
        report = self._check.end()
        return Checked(report=report, problems=tuple(self._found[: self._wanted.limit]))

    def _keep(self, problem: RowProblem) -> None:
        if problem.line > self._wanted.after_line and len(self._found) < self._wanted.limit:
            self._found.append(problem)


class DatasetChecks:
    """Reads datasets, large ones only while there is a free slot."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots

    async def report(self, store: FileStore, storage_key: str, *, size: int) -> DatasetReport:
        """What is in a stored file of `size` bytes. Raises BytesMissing, CheckBroke."""
        return (await self._read(store, storage_key, WantedProblems(), size=size)).report

    async def problems(
        self, store: FileStore, storage_key: str, *, after_line: int, limit: int, size: int
    ) -> tuple[RowProblem, ...]:
        """Its bad lines behind a line, up to `limit`. Raises BytesMissing, CheckBroke."""
        wanted = WantedProblems(after_line=after_line, limit=limit)
        return (await self._read(store, storage_key, wanted, size=size)).problems

    async def _read(self, store: FileStore, storage_key: str, wanted: WantedProblems, *, size: int) -> Checked:
        if size <= _SMALL_BYTES:
            content = b"".join([chunk async for chunk in await store.open(storage_key)])
            return await asyncio.to_thread(_read_at_once, content, wanted)
        async with self._slots:
            return await _in_a_process(await store.open(storage_key), wanted)


def _read_at_once(content: bytes, wanted: WantedProblems) -> Checked:
    reading = DatasetReading(wanted)
    reading.feed(content)
    return reading.end()


async def _in_a_process(chunks: AsyncIterator[bytes], wanted: WantedProblems) -> Checked:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", CHILD, wanted.model_dump_json()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    sending = asyncio.create_task(_send(chunks, child.stdin))
    try:
        told = await child.stdout.read()
        await sending
        status = await child.wait()
        if status != 0:
            raise CheckBroke(f"the process that reads datasets ended with status {status}")
        return Checked.model_validate(json.loads(told))
    finally:
        sending.cancel()
        if child.returncode is None:
            child.kill()
            await child.wait()


async def _send(chunks: AsyncIterator[bytes], stdin: asyncio.StreamWriter) -> None:
    """The child may stop reading before the end."""
    try:
        with suppress(BrokenPipeError, ConnectionResetError):
            async for chunk in chunks:
                stdin.write(chunk)
                await stdin.drain()
    finally:
        stdin.close()
