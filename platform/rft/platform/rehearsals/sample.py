"""The rows a rehearsal draws its calls from: the first ones of the file, checked as a job's."""

import asyncio
from collections.abc import AsyncIterator, Collection

from rft.core.dataset import DatasetRow, RowProblem, parse_row
from rft.core.errors import RftError

MOST_ROWS = 256
"""As many as the largest batch has."""
_MOST_BYTES = 32 << 20
_MOST_LINES = 10_000
"""Empty ones included."""


class BadSample(RftError):
    """The file's first rows cannot be used."""


async def read_sample(lines: AsyncIterator[bytes], *, tools: Collection[str]) -> list[DatasetRow]:
    """Up to 256 rows, less where they are large. Raises BadSample.

    `tools` are those of the job; without any, rows may describe what they like.
    """
    rows: list[DatasetRow] = []
    number = size = 0
    async for line in lines:
        number, size = number + 1, size + len(line)
        if number > _MOST_LINES:
            break
        if not line.strip():
            continue
        # Of a row's size depends how long this takes; whoever asks has other requests to answer.
        row = await asyncio.to_thread(parse_row, line, line_number=number, index=len(rows))
        if isinstance(row, RowProblem):
            raise BadSample(str(row))
        unknown = next((tool.name for tool in row.tools if tools and tool.name not in tools), None)
        if unknown is not None:
            raise BadSample(f"line {number}: {unknown!r} is not among the job's tools ({', '.join(tools)})")
        rows.append(row)
        if len(rows) >= MOST_ROWS or size >= _MOST_BYTES:
            break
    if not rows:
        raise BadSample(f"no rows in its first {_MOST_LINES:,} lines" if number > _MOST_LINES else "no rows")
    return rows
