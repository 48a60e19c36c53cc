"""Callers share a read, and nobody gets one that was read before they asked."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rft.platform.api.shared_reads import SharedReads


class Reads:
    """What is stored, read slowly: a read gives what stood there when the reading began."""

    def __init__(self) -> None:
        self.stored, self.made, self.at_once, self.most_at_once = 0, 0, 0, 0
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> bytes:
        self.made += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        seen = self.stored
        self.has_begun.set()
        await asyncio.sleep(0)
        await self.may_end.wait()
        self.at_once -= 1
        return str(seen).encode()


async def test_all_who_ask_while_one_is_made_share_the_next() -> None:
    shared, reads = SharedReads[bytes](), Reads()
    reads.may_end.clear()
    first = asyncio.create_task(shared.get("job", reads))
    await reads.has_begun.wait()
    reads.stored = 1
    later = [asyncio.create_task(shared.get("job", reads)) for _ in range(50)]
    await asyncio.sleep(0.01)
    reads.may_end.set()
    assert await first == b"0"
    assert await asyncio.gather(*later) == [b"1"] * 50, "none is older than its question"
    assert (reads.made, reads.most_at_once) == (2, 1)


async def test_another_question_waits_for_nobody() -> None:
    shared, reads, other = SharedReads[bytes](), Reads(), Reads()
    reads.may_end.clear()
    held = asyncio.create_task(shared.get("job", reads))
    await reads.has_begun.wait()
    assert await shared.get("another", other) == b"0"
    reads.may_end.set()
    assert await held == b"0"


async def test_whoever_hangs_up_ends_nobody_elses_wait() -> None:
    shared, reads = SharedReads[bytes](), Reads()
    reads.may_end.clear()
    gone, stays = [asyncio.create_task(shared.get("job", reads)) for _ in range(2)]
    await reads.has_begun.wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    reads.may_end.set()
    assert await stays == b"0"


async def test_what_breaks_breaks_for_those_who_shared_it_and_not_for_the_next() -> None:
    shared, reads = SharedReads[bytes](), Reads()

    async def broken() -> bytes:
        await asyncio.sleep(0)
        raise RuntimeError("the database is gone")

    makes: list[Callable[[], Awaitable[bytes]]] = [broken, broken, reads]
    asked = [asyncio.create_task(shared.get("job", make)) for make in makes[:2]]
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(error) for error in ended] == ["the database is gone"] * 2
    assert await shared.get("job", makes[2]) == b"0"


async def test_nothing_is_kept_of_what_was_answered() -> None:
    shared, reads = SharedReads[bytes](), Reads()
    for expected in range(3):
        reads.stored = expected
        assert await shared.get("job", reads) == str(expected).encode()
    assert shared.is_idle
