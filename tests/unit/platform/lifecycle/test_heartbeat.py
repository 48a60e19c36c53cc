"""Why a lease was lost: what the last answers of the database said, as they were when it was lost."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg_pool import PoolTimeout

from rft.platform.lifecycle import heartbeat
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Lease, LeaseLost
from rft.platform.lifecycle.repository import JOBS
from rft.platform.store.database import Database

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
