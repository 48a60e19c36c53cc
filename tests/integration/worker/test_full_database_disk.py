"""A database without room on its disk: the worker says so, and so does the job once there is room again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rft.platform.embedded.home import Home
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.lifecycle import heartbeat
from rft.platform.store.database import Database
from rft.platform.store.migrations import migrate
from rft.platform.worker.run_job import run_job
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.shared.homes import home_folder
from tests.shared.turned_clock import TurnedClock
from tests.shared.waiting import until
from tests.small_disk import fill_disk, small_disk

FULL = "the disk that holds the database is full"
NEEDS_ROOM = (
    "create table ballast (filling text)",
    "create function fill() returns trigger language plpgsql as"
    " $$ begin insert into ballast values (repeat(md5(random()::text), 60)); return new; end $$",
    "create trigger fill before update on jobs for each row execute function fill()",
    "create trigger fill before insert on job_events for each row execute function fill()",
)
"""Every renewal of a lease and every event needs more room: else some find it in the pages that a table has."""


@pytest.fixture
def disk() -> Iterator[Path]:
    """Where the database's home is."""
    with home_folder() as folder, small_disk(folder / "home", megabytes=120) as mounted:
        mounted.chmod(0o711)
        yield mounted


@pytest.fixture
async def bench(disk: Path, tmp_path: Path) -> AsyncIterator[Workbench]:
    """Its database is the only thing on the disk."""
    home = Home(disk)
    with home.hold():
        server = EmbeddedPostgres(home, options={"fsync": "off"})
        await server.start()
        try:
            await migrate(server.url())
            async with Database(server.url()) as database:
                bench = Workbench(tmp_path, server.url(), database)
                bench.plan(Plan())
                for statement in NEEDS_ROOM:
                    await bench.do(statement)
                yield bench
        finally:
            await server.stop()
            home.remove_socket_dir()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TurnedClock:
    """The one by which leases last: none ends before a test lets it go."""
    return TurnedClock(monkeypatch, heartbeat)


async def test_a_lease_that_is_lost_for_room_is_told_in_words(
    bench: Workbench, disk: Path, caplog: pytest.LogCaptureFixture, clock: TurnedClock
) -> None:
    caplog.set_level(logging.WARNING)
    bench.changed_settings |= {"lease_ttl_s": 3.0, "heartbeat_s": 0.2}
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    job_id = await bench.queued_job()
    running = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    ballast = fill_disk(disk)
    await until(lambda: f"heartbeat failed: {FULL}: " in caplog.text, "a beat on the full disk")
    clock.go()
    await until(lambda: f"lease lost: {FULL}" in caplog.text, "the loss of the lease")
    assert not running.done(), "it waits for room to tell of it"
    ballast.unlink()
    assert await running == "lease lost"

    told = await bench.all("select level, message, data from job_events where data->>'code' = 'disk_full'")
    assert [(one["level"], one["data"]) for one in told] == [("warn", {"code": "disk_full"})]
    assert "The disk that holds the database was full" in told[0]["message"]
    await bench.do("update jobs set lease_until = clock_timestamp() where id = %s", job_id)
    assert await run_job(job_id, bench.context()) == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    await bench.assert_every_step_once(job_id, steps=3)


async def test_a_worker_that_stops_does_not_wait_for_room(
    bench: Workbench, disk: Path, caplog: pytest.LogCaptureFixture, clock: TurnedClock
) -> None:
    stops = False
    caplog.set_level(logging.WARNING)
    bench.changed_settings |= {"lease_ttl_s": 3.0, "heartbeat_s": 0.2}
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    job_id = await bench.queued_job()
    running = asyncio.create_task(run_job(job_id, bench.context(is_stopping=lambda: stops)))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    ballast = fill_disk(disk)
    await until(lambda: f"heartbeat failed: {FULL}: " in caplog.text, "a beat on the full disk")
    clock.go()
    await until(lambda: f"lease lost: {FULL}" in caplog.text, "the loss of the lease")
    assert not running.done()
    stops = True
    assert await running == "lease lost"
    ballast.unlink()  # The server's end needs room as well.
