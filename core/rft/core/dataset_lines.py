"""Lines out of chunks, whatever the chunks are: no line, however long, is ever whole in memory."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field

from rft.core.dataset import MAX_ROW_BYTES


@dataclass(slots=True)
class LineSplitter:
    """Feed it chunks, take lines without their newline. A line beyond `max_bytes` is cut one byte after it."""

    max_bytes: int = MAX_ROW_BYTES
    _parts: list[bytes] = field(default_factory=list[bytes])
    _held: int = 0
    _is_first: bool = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._hold(chunk, start, end)
            yield self._take()
            start = end + 1
        self._hold(chunk, start, len(chunk))

    def end(self) -> Iterator[bytes]:
        """The last line, when no newline ended it."""
        if self._held:
            yield self._take()

    def _hold(self, chunk: bytes, start: int, end: int) -> None:
        room = self.max_bytes + 1 - self._held
        part = chunk[start : min(end, start + max(0, room))]
        if part:
            self._parts.append(part)
            self._held += len(part)

    def _take(self) -> bytes:
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        if self._is_first:
            line = line.removeprefix(codecs.BOM_UTF8)  # Some editors begin a file with one, be its first line empty.
        self._is_first = False
        return line
