"""How a lease is kept while some connections get no answer, and why one was lost: what the last answers of the database
said, as they were when it was lost."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg_pool import PoolTimeout

from rft.platform.lifecycle import heartbeat
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Lease, LeaseLost, Requests
from rft.platform.lifecycle.repository import JOBS
from rft.platform.store.database import Database
from tests.shared.waiting import PATIENCE_S, until

FULL = "the disk that holds the database is full"


class FailingDatabase:
    """Fails each write in turn; with the last one the lease is lost."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors: Iterator[Exception] = iter(errors)
        self.last = errors[-1]
        self.beat: Heartbeat | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[Any]]:
        error = next(self.errors)
        if error is self.last and self.beat is not None:
            self.beat.is_lost = True
        raise error
        yield


class SilentDatabase:
    """Its first connections never get an answer, and take two cancellations, as the driver's may."""

    def __init__(self, silent: int) -> None:
        self.lent, self.silent = 0, silent

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        self.lent += 1
        if self.lent <= self.silent:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
        yield cast(AsyncConnection[Any], None)


async def granted(connection: AsyncConnection[Any], lease: Lease, *, ttl_s: float) -> Requests:
    del connection, lease, ttl_s
    return Requests(None, 3)


async def nothing(connection: AsyncConnection[Any]) -> None:
    del connection


@pytest.mark.parametrize(
    ("errors", "is_full"),
    [
        ([psycopg.errors.DiskFull(), psycopg.InterfaceError()], True),
        ([psycopg.errors.DiskFull(), PoolTimeout(), psycopg.OperationalError()], True),
        ([psycopg.errors.DiskFull(), psycopg.OperationalError(), psycopg.OperationalError()], False),
        ([psycopg.OperationalError(), psycopg.errors.DiskFull()], False),
    ],
    ids=["full when lost", "too late an answer says nothing", "something else came between", "full only afterwards"],
)
async def test_a_lease_lost_for_room_says_so(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception], is_full: bool
) -> None:
    monkeypatch.setattr(heartbeat, "_RETRY_S", 0.0)
    database = FailingDatabase(errors)
    beat = Heartbeat(
        cast(Database, database), Lease(JOBS, "ftjob-1", 1, "here"), 60, 20, confirmed_at=0.0, on_lost=lambda: None
    )
    database.beat = beat
    with pytest.raises(LeaseLost) as lost:
        await beat.write(nothing)
    assert (beat.is_disk_full, FULL in str(lost.value)) == (is_full, is_full)


@pytest.mark.lengthy
async def test_a_beat_that_gets_no_answer_is_overtaken_on_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_RETRY_S", 0.01)
    monkeypatch.setattr(heartbeat, "renew", granted)
    lost, database = asyncio.Event(), SilentDatabase(silent=3)
    began_at = time.monotonic()
    lease = Lease(JOBS, "ftjob-1", 1, "here")
    async with Heartbeat(cast(Database, database), lease, 600, 0.02, began_at, on_lost=lost.set) as beat:
        await until(lambda: beat.confirmed_at > began_at, "a beat that is answered")
        beat.check()
    assert (beat.endpoints_version, lost.is_set()) == (3, False)


@pytest.mark.lengthy
@pytest.mark.parametrize("every_s", [3.0, 4.0, 10.0], ids=["three quarters of the lease", "all of it", "more"])
async def test_a_lease_is_renewed_before_it_ends_however_seldom_beats_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, every_s: float
) -> None:
    monkeypatch.setattr(heartbeat, "renew", granted)
    lost, database = asyncio.Event(), cast(Database, SilentDatabase(silent=0))
    lease, began_at = Lease(JOBS, "ftjob-1", 1, "here"), time.monotonic()
    async with Heartbeat(database, lease, 4.0, every_s, began_at, on_lost=lost.set) as beat:
        await until(lambda: beat.confirmed_at > began_at or lost.is_set(), "a beat or the end of the lease")
    assert (beat.endpoints_version, lost.is_set()) == (3, False)


async def test_the_loss_is_told_before_the_lease_ends_even_if_no_attempt_can_be_broken_off() -> None:
    lost, database = asyncio.Event(), SilentDatabase(silent=1000)
    lease = Lease(JOBS, "ftjob-1", 1, "here")
    async with Heartbeat(cast(Database, database), lease, 0.4, 0.1, time.monotonic(), on_lost=lost.set) as beat:
        await asyncio.wait_for(lost.wait(), PATIENCE_S)
        with pytest.raises(LeaseLost):
            beat.check()


@pytest.mark.lengthy
async def test_a_late_answer_to_an_overtaken_beat_counts_as_of_when_it_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, is_overtaken = list[float](), asyncio.Event()

    async def once_overtaken(connection: AsyncConnection[Any], lease: Lease, *, ttl_s: float) -> Requests:
        del connection, lease, ttl_s
        asked.append(time.monotonic())
        if len(asked) > 1:
            is_overtaken.set()
            await asyncio.Event().wait()
        await is_overtaken.wait()
        return Requests(None, 1)

    monkeypatch.setattr(heartbeat, "renew", once_overtaken)
    lease, began_at = Lease(JOBS, "ftjob-1", 1, "here"), time.monotonic()
    database = cast(Database, SilentDatabase(silent=0))
    async with Heartbeat(database, lease, 600, 0.02, began_at, on_lost=lambda: None) as beat:
        await until(lambda: beat.endpoints_version == 1, "the first beat's answer")
        assert began_at < beat.confirmed_at <= asked[0]
