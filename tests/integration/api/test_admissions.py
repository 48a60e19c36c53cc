"""Events of a reply go on for as long as the key of its caller, whoever waits for them and however."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from rft.platform.api import admission
from rft.platform.api.admission import AdmissionMonitor
from rft.platform.api.authentication import Credential
from rft.platform.api.errors import Unauthorized
from rft.platform.api.key_repository import create_key, id_of, revoke_key
from rft.platform.store.database import Database
from tests.shared.waiting import PATIENCE_S

CHECK_S = 0.05


@pytest.fixture
async def connection(migrated_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as opened:
        yield opened


@pytest.fixture
async def monitor(migrated_url: str) -> AsyncIterator[AdmissionMonitor]:
    async with Database(migrated_url) as database:
        yield AdmissionMonitor(database, check_s=CHECK_S)


async def one_then_silence(ended: list[str]) -> AsyncGenerator[int]:
    try:
        yield 1
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        ended.append("events")


async def drained(events: AsyncGenerator[int]) -> None:
    async for _ in events:
        pass


async def revoked_in_a_moment(connection: psycopg.AsyncConnection[Any]) -> tuple[Credential, "asyncio.Task[bool]"]:
    key_id = id_of(await create_key(connection, "short-lived")) or ""

    async def revoke() -> bool:
        await asyncio.sleep(3 * CHECK_S)
        return await revoke_key(connection, key_id)

    return Credential(key_id), asyncio.create_task(revoke())


def cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def test_a_silent_reply_is_refused_once_what_it_is_made_of_has_ended(
    connection: psycopg.AsyncConnection[Any], monitor: AdmissionMonitor
) -> None:
    ended, seen = list[str](), list[int]()
    credential, revoking = await revoked_in_a_moment(connection)
    async with asyncio.timeout(PATIENCE_S):
        events = monitor.while_admitted(credential, one_then_silence(ended))
        seen.append(await anext(events))
        with pytest.raises(Unauthorized) as raised:
            await anext(events)
        await revoking
    assert (raised.value.code, seen, ended) == ("invalid_api_key", [1], ["events"])
    assert cancellations() == 0, "or the next timeout of this task would be taken for a cancellation"


async def test_a_check_that_breaks_is_made_again(
    connection: psycopg.AsyncConnection[Any], monitor: AdmissionMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, check = list[int](), admission.living_keys

    async def breaks_once(*given: Any) -> Any:
        checks.append(1)
        if len(checks) == 1:
            raise RuntimeError("nobody expected this")
        return await check(*given)

    monkeypatch.setattr(admission, "living_keys", breaks_once)
    credential, revoking = await revoked_in_a_moment(connection)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Unauthorized):
            await drained(monitor.while_admitted(credential, one_then_silence([])))
        await revoking
    assert len(checks) > 1


async def test_each_event_may_be_awaited_by_another_task(
    connection: psycopg.AsyncConnection[Any], monitor: AdmissionMonitor
) -> None:
    ended = list[str]()
    credential, revoking = await revoked_in_a_moment(connection)
    events = monitor.while_admitted(credential, one_then_silence(ended))
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.ensure_future(anext(events)) == 1
        with pytest.raises(Unauthorized):
            await asyncio.ensure_future(anext(events))
        await revoking
    assert ended == ["events"]


async def test_a_reply_that_loses_cancellations_ends_too(
    connection: psycopg.AsyncConnection[Any], monitor: AdmissionMonitor
) -> None:
    async def stubborn() -> AsyncGenerator[int]:
        while True:
            with suppress(asyncio.CancelledError):  # as `asyncio.wait_for` does when what it waits for has just ended
                await asyncio.sleep(10 * CHECK_S)
            yield 1

    credential, revoking = await revoked_in_a_moment(connection)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Unauthorized):
            await drained(monitor.while_admitted(credential, stubborn()))
        await revoking
    assert cancellations() == 0


async def test_a_reply_that_is_cancelled_otherwise_is_cancelled(
    connection: psycopg.AsyncConnection[Any], monitor: AdmissionMonitor
) -> None:
    ended = list[str]()
    credential = Credential(id_of(await create_key(connection, "living")) or "")
    events = monitor.while_admitted(credential, one_then_silence(ended))
    assert await anext(events) == 1
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(3 * CHECK_S)
    assert not waiting.done(), "whose key lives goes on"
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["events"]


async def test_a_reply_that_is_over_before_anybody_looks_costs_no_task(
    migrated_url: str, connection: psycopg.AsyncConnection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def few() -> AsyncGenerator[int]:
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    credential = Credential(id_of(await create_key(connection, "living")) or "")
    monitor = AdmissionMonitor(Database(migrated_url), check_s=CHECK_S)  # Its pool is not open: asking it is told.
    before = asyncio.all_tasks()
    for _ in range(3):
        assert [number async for number in monitor.while_admitted(credential, few())] == [0, 1, 2]
    await asyncio.sleep(3 * CHECK_S)
    assert asyncio.all_tasks() == before
    assert "who may go on watching" not in caplog.text
