"""Records as lines over a stream: a request, then events until one of them is the last."""

import asyncio

from rft.core.base import Record

LONGEST_LINE_BYTES = 64 << 20
"""A long conversation with all its tokens."""


async def write_line(writer: asyncio.StreamWriter, record: Record) -> None:
    """Send one record; waits while the other side does not read."""
    writer.write(record.model_dump_json().encode() + b"\n")
    await writer.drain()


async def read_line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line; None where the other side is gone, in the middle of one or before it. Raises ValueError for one
    that is too long."""
    try:
        line = await reader.readline()
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
    return line if line.endswith(b"\n") else None
