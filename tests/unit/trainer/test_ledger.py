"""Attempts reach the event log in batches, in order, none twice and none lost."""

import asyncio
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, CallsFailed, EventLine
from rft.core.failed_call import FailedCall
from rft.core.failure import FailureCode, Stage
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from rft.trainer.events import EventWriter
from rft.trainer.ledger import BATCH, PATIENCE_S, Ledger


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


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
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


def test_attempts_of_steps_under_way_at_once_are_told_each_under_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger(events)

        async def round_of(step: int) -> None:
            async def call(number: int) -> None:
                await asyncio.sleep(0.1 * number)
                ledger.add(attempt(number))

            with ledger.step(step):
                await asyncio.gather(*(asyncio.create_task(call(number)) for number in range(step, step + 4)))

        await asyncio.gather(round_of(1), round_of(2), round_of(3))
        ledger.add(attempt(99))
        await ledger.aclose()

    path = tmp_path / "events.jsonl"
    events = EventWriter(path)
    run_in_virtual_time(main())
    events.close()
    by_step: dict[int, list[float]] = {}
    for event in told(path):
        by_step.setdefault(event.step, []).extend(one.at for one in event.attempts)
    assert by_step == {0: [99.0], **{step: [float(number) for number in range(step, step + 4)] for step in (1, 2, 3)}}


def test_what_went_wrong_is_told_beside_the_attempts_and_the_last_of_it_at_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger(events, clock=virtual_clock)
        for number in (1, 2):
            ledger.failed_calls.add(failed(number))
            ledger.add(attempt(number))
            await asyncio.sleep(2 * PATIENCE_S)
        await ledger.aclose()

    path = tmp_path / "events.jsonl"
    events = EventWriter(path)
    run_in_virtual_time(main())
    events.close()
    lines = [EventLine.model_validate_json(line).event for line in path.read_bytes().splitlines()]
    assert [type(line) for line in lines] == [AttemptsMade, CallsFailed, AttemptsMade, CallsFailed]
    assert [line.calls for line in lines if isinstance(line, CallsFailed)] == [(failed(1),), (failed(2),)]


def failed(number: int) -> FailedCall:
    return FailedCall(
        float(number),
        "trace_1",
        Stage.TOOL,
        "search",
        f"call_{number}",
        1,
        FailureCode.TIMEOUT,
        None,
        "slow",
        "{}",
        None,
    )
