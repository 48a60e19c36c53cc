"""Workers that could not be heard are not lost."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from rft.platform.rollout_inbox import endpoints, patience, repository
from rft.platform.store.database import Database
from rft.rollouts.shards.inbox import InboxDown
from rft.rollouts.shards.inbox_wire import SHARD_LEASE_S
from tests.integration.rollout_inbox.stage import BUSY, SHARDS, Stage
from tests.shared.turned_clock import TurnedClock
from tests.shared.waiting import until


async def test_nobody_is_lost_who_could_not_be_heard_while_the_database_was_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, is_away, real = TurnedClock(monkeypatch, patience), True, Database.transaction

    @asynccontextmanager
    async def transaction(database: Database) -> AsyncGenerator[Any]:
        if is_away and database is not stage.database:
            raise psycopg.OperationalError("the server closed the connection unexpectedly")
        async with real(database) as connection:
            yield connection

    worker, trainer = stage.worker("a"), stage.trainer
    await trainer.give_out(SHARDS[:1])
    await worker.take(is_idle=True)
    monkeypatch.setattr(endpoints, "time", patience.time)
    monkeypatch.setattr(patience, "_PATIENCE_S", SHARD_LEASE_S)
    monkeypatch.setattr(Database, "transaction", transaction)
    clock.turn(SHARD_LEASE_S + 1)
    with pytest.raises(InboxDown):
        await worker.beat({"one": BUSY})
    await stage.expire()
    is_away = False
    assert (await trainer.read(seen=(), over=(), wait_s=0)).lost == ()
    assert await worker.beat({"one": BUSY}) == (), "it lives, and its shard is its own"
    await stage.expire()

    async def is_lost() -> bool:
        clock.turn(SHARD_LEASE_S + 1)
        return [lost.id for lost in (await trainer.read(seen=(), over=(), wait_s=0)).lost] == ["one"]

    await until(is_lost, "the worker that says nothing in its time to be lost")


async def test_nobody_is_lost_at_once_who_could_not_be_heard_while_the_way_to_the_api_was_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await let_everybody_have_had_time(stage, monkeypatch)
    living, dead, trainer = stage.worker("living"), stage.worker("dead"), stage.trainer
    await trainer.give_out(SHARDS)
    for worker in (living, dead):
        await worker.take(is_idle=True)
        assert (await trainer.read(seen=(), over=(), wait_s=0)).lost == ()
    await stage.note_last_read(ago_s=60.0)
    await stage.expire()
    assert (await trainer.read(seen=(), over=(), wait_s=0)).lost == ()
    assert await living.beat({"one": BUSY}) == (), "it lives, and its shard is its own"

    async def is_lost() -> bool:
        async with stage.database.transaction() as connection:
            await connection.execute(
                "update rollout_shards set lease_until = lease_until - make_interval(secs => %s)", (SHARD_LEASE_S,)
            )
        lost = (await trainer.read(seen=(), over=(), wait_s=0)).lost
        return [(one.id, one.worker) for one in lost] == [("two", "dead")]

    await until(is_lost, "the worker that says nothing in its time to be lost")


async def test_a_trainer_that_reads_slowly_keeps_no_dead_worker_alive(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What workers handed over may take it seconds."""
    await let_everybody_have_had_time(stage, monkeypatch)
    await stage.trainer.give_out(SHARDS[:1])
    await stage.worker("dead").take(is_idle=True)
    await stage.trainer.read(seen=(), over=(), wait_s=0)

    async def is_lost() -> bool:
        await stage.expire()
        await stage.note_last_read(ago_s=3.0)
        return bool((await stage.trainer.read(seen=(), over=(), wait_s=0)).lost)

    await until(is_lost, "the dead worker to be lost")


async def test_a_worker_that_left_is_lost_although_the_others_get_their_time_anew(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await let_everybody_have_had_time(stage, monkeypatch)
    await stage.trainer.give_out(SHARDS)
    leaving, silent = stage.worker("leaving"), stage.worker("silent")
    await leaving.take(is_idle=True)
    await silent.take(is_idle=True)
    await stage.trainer.read(seen=(), over=(), wait_s=0)
    await leaving.beat({"one": BUSY}, is_leaving=True)
    await stage.note_last_read(ago_s=60.0)
    lost = (await stage.trainer.read(seen=(), over=(), wait_s=0)).lost
    assert [(one.id, one.worker) for one in lost] == [("one", "leaving")]


async def let_everybody_have_had_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API and its database were there for longer than a lease."""
    monkeypatch.setattr(patience, "_PATIENCE_S", SHARD_LEASE_S)
    clock = TurnedClock(monkeypatch, patience)
    monkeypatch.setattr(endpoints, "time", patience.time)
    clock.turn(SHARD_LEASE_S + 1)
    await until(lambda: database_runs_for_a_lease(stage), "the database to be there for as long as a lease")


async def database_runs_for_a_lease(stage: Stage) -> bool:
    async with stage.database.transaction() as connection:
        cursor = await connection.execute(
            "select pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => %s)", (SHARD_LEASE_S + 1,)
        )
        (row,) = await cursor.fetchall()
        return row[0]


async def test_nobody_is_lost_soon_after_the_database_started(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS[:1])
    await stage.worker("a").take(is_idle=True)
    await stage.expire()
    async with stage.database.transaction() as connection:
        inbox = repository.InboxRepository(connection, stage.lease.id)
        for patience_s in (None, 1e9):
            assert (await inbox.news(patience_s=patience_s)).lost == ()
        assert [lost.id for lost in (await inbox.news(patience_s=-1e9)).lost] == ["one"]


def test_workers_get_their_time_anew_after_a_pause_of_the_process_or_a_slow_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "_PATIENCE_S", SHARD_LEASE_S)
    ran_s = slept_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: ran_s, time=lambda: ran_s + slept_s)
    monkeypatch.setattr(patience, "time", clock)
    ours = patience.Patience()

    def run(seconds: int) -> None:
        nonlocal ran_s
        for _ in range(seconds):
            ran_s += 1.0
            ours.had_s(asked_at_s=ran_s)

    run(9)
    assert ours.had_s(asked_at_s=ran_s) == SHARD_LEASE_S
    slept_s += 3.0
    assert ours.had_s(asked_at_s=ran_s) is None, "the machine slept"
    run(9)
    assert ours.had_s(asked_at_s=ran_s) == SHARD_LEASE_S
    assert ours.had_s(asked_at_s=ran_s - 3.0) is None, "so long did the database take"
    run(9)
    assert ours.had_s(asked_at_s=ran_s) == SHARD_LEASE_S
