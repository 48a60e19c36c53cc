"""A trainer that lives and says nothing does not keep its job for ever."""

import asyncio

import pytest

from rft.core.events import StillWaiting, TrainEvent
from rft.platform.lifecycle.owner import is_alive
from rft.platform.worker import trainer_run
from rft.platform.worker.run_job import run_job
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import hold_began, hold_ended, numbered, whole_run
from tests.shared.turned_clock import TurnedClock
from tests.shared.waiting import until

SILENT_AT_FIRST = """
echo $$ >> "$0/launches"
if [ -e "$0/second" ]; then cat "$0/log" >> "$1/events.jsonl"; else touch "$0/second"; exec sleep 600; fi
"""
SILENT_IN_A_HOLD = """
echo $$ >> "$0/launches"
head -n 2 "$0/log" >> "$1/events.jsonl"
while [ ! -e "$0/go-on" ]; do sleep 0.05; done
tail -n +3 "$0/log" >> "$1/events.jsonl"
"""
STILL_WAITING = """
echo $$ >> "$0/launches"
head -n 1 "$0/log" >> "$1/events.jsonl"
for line in 2 3 4; do
  while [ ! -e "$0/go-on-$line" ]; do sleep 0.05; done
  sed -n ${line}p "$0/log" >> "$1/events.jsonl"
done
tail -n +5 "$0/log" >> "$1/events.jsonl"
"""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TurnedClock:
    """The one by which silence is measured."""
    return TurnedClock(monkeypatch, trainer_run)


def plan(bench: Workbench, script: str, events: list[TrainEvent]) -> None:
    """A trainer that is no Python program, so that it starts at once; it has this to tell."""
    log = b"".join(line.model_dump_json().encode() + b"\n" for line in numbered(events))
    (bench.control / "log").write_bytes(log)
    bench.changed_settings["trainer_command"] = ["sh", "-c", script, str(bench.control)]


async def test_a_silent_trainer_is_killed_and_started_again(bench: Workbench, clock: TurnedClock) -> None:
    bench.changed_settings = {"trainer_silence_s": 3.0}
    job_id = await bench.queued_job()
    plan(bench, SILENT_AT_FIRST, whole_run(job_id, steps=2))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "second").exists, "the first launch to fall silent")
    await until(lambda: clock.asked > 0, "its silence to be measured")
    clock.turn(3.1)
    assert await task == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    assert len(bench.launches) == 2
    assert not is_alive(bench.launches[0])
    warning = (
        await bench.all("select message from job_events where job_id = %s and message like '%%wrote%%'", job_id)
    )[0]
    assert "The training process wrote nothing for 3 s and was killed" in warning["message"]
    assert "starts again from the last complete checkpoint" in warning["message"]


async def test_a_trainer_that_is_always_silent_fails_the_job(bench: Workbench) -> None:
    command = ["sh", "-c", "exec sleep 600"]
    bench.changed_settings = {
        "trainer_silence_s": 0.5,
        "max_launches_without_progress": 2,
        "trainer_command": command,
    }
    job_id = await bench.queued_job()
    assert await run_job(job_id, bench.context()) == "failed"
    error = (await bench.job(job_id))["error"]
    assert error["code"] == "trainer_crashed"
    assert "wrote nothing for" in error["message"]


async def test_a_held_trainer_may_be_silent_for_as_long_as_a_hold_may_last(
    bench: Workbench, clock: TurnedClock
) -> None:
    bench.changed_settings = {"trainer_silence_s": 3.0, "hold_max_s": 3600.0}
    job_id = await bench.queued_job()
    first, *rest = whole_run(job_id, steps=2)
    plan(bench, SILENT_IN_A_HOLD, [first, hold_began(0), hold_ended(0), *rest])
    task = asyncio.create_task(run_job(job_id, bench.context()))

    async def is_held() -> bool:
        return (await bench.job(job_id))["hold"] is not None

    await until(is_held, "the trainer to be held")
    asked = clock.asked
    await until(lambda: clock.asked > asked + 3, "its silence since then to be measured")
    clock.turn(4.0)
    asked = clock.asked
    await until(lambda: clock.asked > asked + 20, "looks at more silence than a run that is not held may keep")
    (bench.control / "go-on").touch()
    assert await task == "over"
    assert len(bench.launches) == 1


async def test_a_trainer_that_says_that_it_still_waits_goes_on_for_longer_than_silence_may_last(
    bench: Workbench, clock: TurnedClock
) -> None:
    bench.changed_settings = {"trainer_silence_s": 60.0}
    job_id = await bench.queued_job()
    first, *rest = whole_run(job_id, steps=2)
    plan(bench, STILL_WAITING, [first, *(StillWaiting() for _ in range(3)), *rest])
    task = asyncio.create_task(run_job(job_id, bench.context()))

    async def is_stored(line: int) -> bool:
        return (await bench.job(job_id))["last_event_seq"] >= line

    await until(lambda: is_stored(1), "the run to start")
    told = await bench.all("select id from job_events where job_id = %s", job_id)
    for line in (2, 3, 4):
        clock.turn(40.0)
        (bench.control / f"go-on-{line}").touch()
        if line < 4:
            await until(lambda line=line: is_stored(line), "the trainer to be heard")
            assert len(await bench.all("select id from job_events where job_id = %s", job_id)) == len(told)
    assert await task == "over"
    assert len(bench.launches) == 1


async def test_without_a_limit_silence_is_borne(bench: Workbench) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    bench.changed_settings = {"trainer_silence_s": 0.0}
    job_id = await bench.queued_job()
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    (bench.control / "go-on").touch()
    assert await task == "over"
    assert len(bench.launches) == 1
