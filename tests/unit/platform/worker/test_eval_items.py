"""A file of items that is none is told by its first lines, whatever its size, and holds nothing up."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from rft.platform.worker.eval_items import EvalItems, UnusableItems

BAD = 50_000


class Lines:
    """A file store with one file, in a single chunk."""

    def __init__(self, lines: bytes) -> None:
        self.lines = lines

    async def open(self, key: str) -> AsyncIterator[bytes]:
        del key

        async def chunks() -> AsyncIterator[bytes]:
            yield self.lines

        return chunks()


class Run:
    """As much of a run as items need."""

    file_id = "file-1"


def items_of(lines: bytes) -> EvalItems:
    return EvalItems(cast(Any, Run()), "key", cast(Any, Lines(lines)))


@pytest.mark.lengthy
async def test_of_many_bad_lines_the_first_are_told_and_kept() -> None:
    items = items_of(b'{"item": {}}\n' + b'  "x": 1,\n' * BAD)
    tracemalloc.start()
    try:
        with pytest.raises(UnusableItems) as raised:
            await items.count()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert "line 2: not JSON" in str(raised.value)
    assert "line 6: not JSON" in str(raised.value)
    assert "line 7:" not in str(raised.value)
    assert str(raised.value).endswith(f"; and {BAD - 5} more.")


async def test_others_have_their_turn_while_lines_are_counted() -> None:
    counting, turns = asyncio.create_task(items_of(b'{"item": {}}\n' * BAD).count()), 0
    while not counting.done():
        await asyncio.sleep(0)
        turns += 1
    assert await counting == BAD
    assert turns > 20
