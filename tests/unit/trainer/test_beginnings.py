"""Beginnings are on disk before anybody goes on, and those of one moment share a line."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rft.core.events import EventLine, RolloutBegan, RolloutsBegan, TrainEvent
from rft.core.rollout import RolloutKey, Split
from rft.trainer.beginnings import Beginnings
from rft.trainer.events import EventWriter
from rft.trainer.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def events(path: Path) -> Iterator[EventWriter]:
    with closing(EventWriter(path)) as events:
        yield events


def began(index: int) -> RolloutBegan:
    key = RolloutKey(job_id="j", job_seed=1, split=Split.TRAIN, step=1, epoch=0, row_index=0, index=index)
    return RolloutBegan(key=key, trace_id=f"trace_{index}", policy_version=0)


def told(path: Path) -> list[tuple[RolloutBegan, ...]]:
    events = [EventLine.model_validate_json(line).event for line in path.read_bytes().splitlines()]
    return [event.rollouts for event in events if isinstance(event, RolloutsBegan)]


@pytest.mark.lengthy
async def test_a_burst_is_one_line_that_is_written_before_any_of_it_goes_on(path: Path, events: EventWriter) -> None:
    beginnings, seen = Beginnings(events, Ledger(events)), list[int]()

    async def converse(index: int) -> None:
        await beginnings.tell(began(index))
        assert began(index) in told(path)[-1]
        seen.append(index)

    await asyncio.gather(*map(converse, range(500)))
    assert len(seen) == 500
    assert told(path) == [tuple(map(began, range(500)))]
    await converse(500)
    assert told(path)[1:] == [(began(500),)]


async def test_one_that_is_cancelled_keeps_nobody_else_from_going_on(path: Path, events: EventWriter) -> None:
    beginnings = Beginnings(events, Ledger(events))
    first, second = (asyncio.create_task(beginnings.tell(began(index))) for index in range(2))
    asyncio.get_running_loop().call_soon(first.cancel)
    await second
    with pytest.raises(asyncio.CancelledError):
        await first
    assert told(path) == [(began(0), began(1))]


async def test_what_cannot_be_written_is_raised_to_all_who_wait(path: Path) -> None:
    class Full(EventWriter):
        def append(self, event: TrainEvent) -> None:
            raise OSError(28, "No space left on device")

    with closing(Full(path)) as events:
        beginnings = Beginnings(events, Ledger(events))
        outcomes = await asyncio.gather(*(beginnings.tell(began(index)) for index in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OSError] * 3
