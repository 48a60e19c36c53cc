"""Attempts reach the event log in batches, in order, none twice and none lost."""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, EventLine, RolloutBegan, TrainEvent
from rft.core.failure import FailureCode, Stage
from rft.core.rollout import RolloutKey, Split
from rft.testing.samplers_time import run_in_virtual_time
from rft.trainer.events import EventWriter
from rft.trainer.ledger import BATCH, PATIENCE_S, Ledger
from tests.shared.examples import examples


def attempt(number: int) -> Attempt:
    return Attempt(
        at=float(number), trace_id="trace_1", stage=Stage.TOOL, endpoint="search", call_id=f"call_{number}", attempt=1,
        code=FailureCode.TIMEOUT if number % 2 else None, status=None, latency_s=0.5, queued_s=0.1, sent_bytes=10,
        received_bytes=20,
    )  # fmt: skip


def told(path: Path) -> list[AttemptsMade]:
    events = [EventLine.model_validate_json(line).event for line in path.read_bytes().splitlines()]
    return [event for event in events if isinstance(event, AttemptsMade)]


def test_an_attempt_is_told_within_a_second(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger(events)
        with ledger.step(4):
            ledger.add(attempt(1))
            await asyncio.sleep(PATIENCE_S / 2)
            ledger.add(attempt(2))
            assert told(path) == []
            await asyncio.sleep(PATIENCE_S / 2 + 0.01)
            assert told(path) == [AttemptsMade(step=4, attempts=(attempt(1), attempt(2)))]
            await asyncio.sleep(10 * PATIENCE_S)
        assert len(told(path)) == 1

    path = tmp_path / "events.jsonl"
    events = EventWriter(path)
    run_in_virtual_time(main())
    events.close()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
@given(rounds=st.lists(st.integers(0, 3 * BATCH), max_size=4))
def test_every_attempt_is_told_once_under_its_step(tmp_path: Path, rounds: list[int]) -> None:
    async def main() -> None:
        ledger, number = Ledger(events), 0
        for step, count in enumerate(rounds):
            with ledger.step(step):
                for _ in range(count):
                    ledger.add(attempt(number))
                    number += 1
        await ledger.aclose()

    path = tmp_path / "events.jsonl"
    path.unlink(missing_ok=True)
    events = EventWriter(path)
    run_in_virtual_time(main())
    events.close()
    assert [one.at for event in told(path) for one in event.attempts] == [float(i) for i in range(sum(rounds))]
    assert all(0 < len(event.attempts) <= BATCH for event in told(path))
    per_step = [sum(len(event.attempts) for event in told(path) if event.step == i) for i in range(len(rounds))]
    assert per_step == rounds


class FullAtFirst(EventWriter):
    """There is no room for the first line."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_full = True

    def append(self, event: TrainEvent) -> None:
        if self.is_full:
            self.is_full = False
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(event)


def test_what_could_not_be_written_is_told_once_there_is_room(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger(events)
        ledger.add(attempt(1))
        await asyncio.sleep(PATIENCE_S + 0.01)
        assert told(path) == []
        await asyncio.sleep(PATIENCE_S)

    path = tmp_path / "events.jsonl"
    events = FullAtFirst(path)
    run_in_virtual_time(main())
    events.close()
    assert told(path) == [AttemptsMade(step=0, attempts=(attempt(1),))]


def test_a_whole_batch_that_could_not_be_written_is_told_with_the_next_attempt(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger(events)
        for number in range(BATCH - 1):
            ledger.add(attempt(number))
        with pytest.raises(OSError, match="No space"):
            ledger.add(attempt(BATCH - 1))
        ledger.add(attempt(BATCH))

    path = tmp_path / "events.jsonl"
    events = FullAtFirst(path)
    run_in_virtual_time(main())
    events.close()
    assert [[one.at for one in event.attempts] for event in told(path)] == [[*range(BATCH)], [BATCH]]


def began(step: int, number: int) -> RolloutBegan:
    key = RolloutKey(
        job_id="ftjob-1", job_seed=1, split=Split.TRAIN, step=step, epoch=0, row_index=number, index=0
    )  # fmt: skip
    return RolloutBegan(key=key, trace_id=f"trace_{step}_{number}", policy_version=0)


def test_attempts_of_steps_under_way_at_once_are_told_each_under_its_own_whoever_tells_them(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger(events)
        with ledger.step(1), ledger.step(2):
            for step in (1, 2):
                for number in range(3):
                    ledger.began(began(step, number))
            for number in range(3):
                for step in (2, 1):
                    ledger.add(replace(attempt(10 * step + number), trace_id=f"trace_{step}_{number}"))
        with ledger.step(3):  # An end that is told after its step, and something for no rollout that is known.
            ledger.add(replace(attempt(19), trace_id="trace_1_0"))
            ledger.add(attempt(39))
        await ledger.aclose()

    path = tmp_path / "events.jsonl"
    events = EventWriter(path)
    run_in_virtual_time(main())
    events.close()
    by_step: dict[int, list[float]] = {}
    for event in told(path):
        by_step.setdefault(event.step, []).extend(one.at for one in event.attempts)
    assert by_step == {1: [10.0, 11.0, 12.0, 19.0], 2: [20.0, 21.0, 22.0], 3: [39.0]}


def test_rollouts_of_steps_long_past_are_forgotten(tmp_path: Path) -> None:
    """A run of a million rollouts must not remember them all."""

    async def main() -> None:
        ledger = Ledger(events)
        for step in range(40):
            with ledger.step(step):
                ledger.began(began(step, 0))
        ledger.add(replace(attempt(1), trace_id="trace_0_0"))
        ledger.add(replace(attempt(2), trace_id="trace_38_0"))
        await ledger.aclose()

    path = tmp_path / "events.jsonl"
    events = EventWriter(path)
    run_in_virtual_time(main())
    events.close()
    assert {event.step: len(event.attempts) for event in told(path)} == {39: 1, 38: 1}
