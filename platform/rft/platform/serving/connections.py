"""Connections to serving processes, each for one request, opened before it comes."""

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from rft.serving_wire.lines import LONGEST_LINE_BYTES

Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True, eq=False)
class SpareConnections:
    """At most one to each process: what a request would wait for it, it waits before its first token."""

    _spare: dict[int, Connection] = field(default_factory=dict[int, Connection])
    """By the port of the process."""
    _opening: dict[int, "asyncio.Task[None]"] = field(default_factory=dict[int, "asyncio.Task[None]"])

    async def take(self, port: int) -> Connection:
        """The spare one, or another where there is none or the process is gone. Raises OSError."""
        reader, writer = self._spare.pop(port, (None, None))
        if reader is not None and writer is not None:
            if _is_alive(reader):
                return reader, writer
            writer.close()
        return await _open(port)

    def refill(self, port: int) -> None:
        """Opens the one for the next request, beside what goes on."""
        self._drop_dead()
        if port not in self._spare and port not in self._opening:
            opening = asyncio.ensure_future(self._open_spare(port))
            self._opening[port] = opening
            opening.add_done_callback(lambda _: self._opening.pop(port, None))

    def close(self) -> None:
        """All of them."""
        for opening in self._opening.values():
            opening.cancel()
        for _, writer in self._spare.values():
            writer.close()
        self._spare.clear()

    def _drop_dead(self) -> None:
        """Those of processes that have ended: the next life of a process has another port, and takes none of them."""
        for port in [port for port, (reader, _) in self._spare.items() if not _is_alive(reader)]:
            _, writer = self._spare.pop(port)
            writer.close()

    async def _open_spare(self, port: int) -> None:
        try:
            self._spare[port] = await _open(port)
        except OSError:
            return  # The next request finds out what that means.


def _is_alive(reader: asyncio.StreamReader) -> bool:
    return not reader.at_eof() and reader.exception() is None


async def _open(port: int) -> Connection:
    return await asyncio.open_connection("127.0.0.1", port, limit=LONGEST_LINE_BYTES)
