"""Who may run a job, and what happens to jobs nobody runs."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import JobStatus
from rft.platform.lifecycle import heartbeat
from rft.platform.lifecycle.events import add_event
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.job_lease import Refusal, release, take
from rft.platform.lifecycle.lease import Lease, LeaseLost, Requests, renew
from rft.platform.lifecycle.owner import is_surely_dead, new_owner
from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
from rft.platform.store.database import Database
from rft.platform.store.key_rotation import rotate_key
from rft.platform.store.secret_box import KEY_FILE, SecretBox
from rft.platform.worker import reconciler
from rft.platform.worker.reconciler import reconcile_forever, reconcile_once
from tests.integration.worker.workbench import AT_ONCE, Workbench
from tests.shared.turned_clock import TurnedClock
from tests.shared.waiting import PATIENCE_S, until


async def taken(bench: Workbench, job_id: str, *, owner: str = "a/1/x", ttl_s: float = 60.0, slots: int = 1):
    async with bench.database.connection() as connection:
        return await take(connection, job_id, owner=owner, ttl_s=ttl_s, slots=slots)


async def held(bench: Workbench, job_id: str, *, ttl_s: float = 60.0) -> Lease:
    lease = await taken(bench, job_id, ttl_s=ttl_s)
    assert isinstance(lease, Lease)
    return lease


async def dead_owner() -> str:
    """A process of this machine that is gone."""
    dead = await asyncio.create_subprocess_exec("true")
    await dead.wait()
    return new_owner().replace(f"/{os.getpid()}/", f"/{dead.pid}/")


async def test_tokens_grow_and_an_expired_lease_can_be_taken(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    first = await held(bench, job_id, ttl_s=0.0)
    second = await held(bench, job_id)
    assert second.token == first.token + 1
    assert await taken(bench, job_id, owner="b/1/x") is Refusal.NOT_RUNNABLE
    async with bench.database.connection() as connection:
        assert await renew(connection, second, ttl_s=60) == Requests(None, 0)
        with pytest.raises(LeaseLost):
            await renew(connection, first, ttl_s=60)


async def test_a_token_that_was_given_twice_is_its_last_owner_s(bench: Workbench) -> None:
    """As after a failover to a database that did not have the commit of the first lease."""
    job_id = await bench.queued_job()
    forgotten = await held(bench, job_id)
    await bench.do(
        "update jobs set status = 'queued', lease_token = lease_token - 1, lease_owner = null, lease_until = null"
    )
    second = await taken(bench, job_id, owner="b/1/x")
    assert isinstance(second, Lease)
    assert second.token == forgotten.token
    async with bench.database.connection() as connection:
        assert await renew(connection, second, ttl_s=60) == Requests(None, 0)
        with pytest.raises(LeaseLost):
            await renew(connection, forgotten, ttl_s=60)


async def test_slots_are_counted_per_host(bench: Workbench) -> None:
    jobs = [await bench.queued_job() for _ in range(3)]
    assert isinstance(await taken(bench, jobs[0], owner="a/1/x"), Lease)
    assert await taken(bench, jobs[1], owner="a/2/y") is Refusal.NO_SLOT
    assert isinstance(await taken(bench, jobs[1], owner="b/1/x"), Lease)
    assert isinstance(await taken(bench, jobs[2], owner="a/3/z", slots=2), Lease)


async def test_each_lease_tells_which_slot_of_its_host_it_takes_up(bench: Workbench) -> None:
    jobs = [await bench.queued_job() for _ in range(5)]
    leases = [await taken(bench, job_id, owner=f"a/{n}/x", slots=3) for n, job_id in enumerate(jobs[:3])]
    assert [lease.slot for lease in leases if isinstance(lease, Lease)] == [0, 1, 2]
    elsewhere = await taken(bench, jobs[3], owner="b/1/x", slots=3)
    assert isinstance(elsewhere, Lease)
    assert elsewhere.slot == 0
    assert isinstance(leases[1], Lease)
    async with bench.database.transaction() as connection:
        await release(connection, leases[1], JobStatus.SUCCEEDED)
    next_one = await taken(bench, jobs[4], owner="a/9/x", slots=3)
    assert isinstance(next_one, Lease)
    assert next_one.slot == 1, "the one that was freed"


async def test_a_job_whose_worker_died_gets_a_slot_that_is_free_by_then(bench: Workbench) -> None:
    lost, other = await bench.queued_job(), await bench.queued_job()
    assert isinstance(await taken(bench, lost, owner="a/1/x", ttl_s=0.0, slots=2), Lease)
    assert isinstance(await taken(bench, other, owner="a/2/x", slots=2), Lease)
    again = await taken(bench, lost, owner="a/3/x", slots=2)
    assert isinstance(again, Lease)
    assert again.slot == 1, "the dead worker's slot 0 went to the other job"


async def test_one_slot_is_given_once_however_many_ask(bench: Workbench) -> None:
    jobs = [await bench.queued_job() for _ in range(6)]
    outcomes = await asyncio.gather(*(taken(bench, job_id, owner=f"a/{n}/x") for n, job_id in enumerate(jobs)))
    assert sum(isinstance(outcome, Lease) for outcome in outcomes) == 1


async def test_a_released_job_has_no_owner_and_a_released_lease_no_power(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    lease = await held(bench, job_id)
    async with bench.database.transaction() as connection:
        await release(connection, lease, JobStatus.SUCCEEDED)
    job = await bench.job(job_id)
    assert (job["status"], job["lease_owner"], job["lease_until"]) == ("succeeded", None, None)
    assert job["finished_at"] is not None
    with pytest.raises(LeaseLost):
        async with bench.database.transaction() as connection:
            await release(connection, lease, JobStatus.FAILED)


async def test_a_row_that_somebody_has_locked_holds_up_no_other_job(bench: Workbench) -> None:
    """As by a process that is frozen in the middle of a transaction."""
    orphaned, locked, lost, unheard = [await bench.queued_job() for _ in range(4)]
    assert isinstance(await taken(bench, orphaned, owner=await dead_owner(), slots=9), Lease)
    for job_id in (locked, lost):
        assert isinstance(await taken(bench, job_id, ttl_s=0.0, slots=9), Lease)
    await bench.do("update jobs set enqueued_at = null where id = %s", unheard)

    async def reconciled() -> set[str]:
        work = reconcile_once(bench.database, AT_ONCE, reconcile_s=0.0, enqueuer=bench.enqueued.append)
        return {message.job_id for message in await asyncio.wait_for(work, 10.0)}

    await bench.do(
        "insert into regrades (id, job_id, status, grader, selection, lease_owner, lease_token, lease_until)"
        " values ('regrade-1', %s, 'running', '{}', '{}', 'here/1/a', 1, now())",
        lost,
    )
    await bench.do(
        "insert into rehearsals (id, status, model, training_file, method, seed, plan, lease_until)"
        " select name, name, 'x', training_file, '{}', 1, '{}', now() from jobs,"
        " unnest(array['queued', 'running']) name"
        " where id = %s",
        lost,
    )
    async with await psycopg.AsyncConnection.connect(bench.database_url) as other:
        for table in ("regrades", "rehearsals"):
            await other.execute(f"select 1 from {table} for update")
        await other.execute("select 1 from jobs where id = any(%s) for update", ([locked, orphaned],))
        assert await reconciled() == {lost, unheard}
        await other.rollback()
        await other.execute("select 1 from jobs where id = %s for update", (locked,))
        assert orphaned in await reconciled()
        for wanted in ("is_pause_requested", "is_cancel_requested"):
            await other.execute(f"update jobs set {wanted} = true where id = %s", (locked,))
            await other.commit()
            await other.execute("select 1 from jobs where id = %s for update", (locked,))
            await reconciled()
        assert (await bench.job(locked))["status"] == "running"
    await reconciled()
    assert (await bench.job(locked))["status"] == "cancelled"


async def test_a_heartbeat_gives_up_before_the_lease_ends(bench: Workbench) -> None:
    """The database is gone: whoever else waits for the end of the lease must not find us still at work."""
    job_id = await bench.queued_job()
    lost = asyncio.Event()
    async with Database(bench.database_url) as database:
        asked_at = time.monotonic()
        async with database.connection() as connection:
            lease = await take(connection, job_id, owner="a/1/x", ttl_s=1.2, slots=1)
        assert isinstance(lease, Lease)
        beat = Heartbeat(database, lease, 1.2, 0.2, asked_at, on_lost=lost.set)
        async with beat:
            await database.close()
            await asyncio.wait_for(lost.wait(), PATIENCE_S)
            assert time.monotonic() - asked_at >= 0.2
            with pytest.raises(LeaseLost):
                beat.check()


async def test_a_full_disk_is_told_even_if_the_last_beat_before_the_loss_came_too_late(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = TurnedClock(monkeypatch, heartbeat)

    class FullThenSilent(Database):
        beats = 0

        @asynccontextmanager
        async def connection(self) -> AsyncGenerator[Any]:
            self.beats += 1
            if self.beats > 1:
                clock.turn(2.0)
                await asyncio.Event().wait()
            raise psycopg.errors.DiskFull("No space left on device")
            yield

    lease = await taken(bench, await bench.queued_job(), owner="a/1/x")
    assert isinstance(lease, Lease)
    lost, database = asyncio.Event(), FullThenSilent(bench.database_url)
    beat = Heartbeat(database, lease, 2.0, 0.05, heartbeat.time.monotonic(), on_lost=lost.set)
    async with beat:
        await asyncio.wait_for(lost.wait(), PATIENCE_S)
    with pytest.raises(LeaseLost, match="the disk that holds the database is full"):
        beat.check()
    assert database.beats == 2


async def test_a_lease_is_kept_and_written_under_when_the_server_takes_no_writes_for_a_while(bench: Workbench) -> None:
    """As in a failover, whose old primary answers on and takes only reads."""

    async def tell_so(connection: AsyncConnection[TupleRow]) -> None:
        await add_event(connection, job_id, "a write", key="write")

    job_id, lost = await bench.queued_job(), asyncio.Event()
    async with Database(bench.database_url, max_connections=1) as database:
        asked_at = time.monotonic()
        async with database.connection() as connection:
            lease = await take(connection, job_id, owner="a/1/x", ttl_s=600.0, slots=1)
        assert isinstance(lease, Lease)
        async with Heartbeat(database, lease, 600.0, 0.2, asked_at, on_lost=lost.set) as beat:
            await take_only_reads(database)
            confirmed_at = beat.confirmed_at
            await until(lambda: beat.confirmed_at > confirmed_at, "a beat that the new primary takes")
            await take_only_reads(database)
            await beat.write(tell_so)
            beat.check()
    assert not lost.is_set()
    assert await bench.all("select id from job_events where job_id = %s and message = 'a write'", job_id)


async def take_only_reads(database: Database) -> None:
    """Its one connection does from now on."""
    async with database.connection() as connection:
        await connection.execute("set default_transaction_read_only = on")


async def test_a_lease_that_a_broken_heartbeat_does_not_keep_is_lost_aloud(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Database):
        @asynccontextmanager
        async def connection(self) -> AsyncGenerator[Any]:
            raise ValueError("a bug of ours")
            yield

    lease = await taken(bench, await bench.queued_job(), owner="a/1/x")
    assert isinstance(lease, Lease)
    lost, database = asyncio.Event(), Broken(bench.database_url)
    async with Heartbeat(database, lease, 60.0, 0.05, time.monotonic(), on_lost=lost.set) as beat:
        await asyncio.wait_for(lost.wait(), PATIENCE_S)
        with pytest.raises(LeaseLost):
            beat.check()
    assert "a bug of ours" in caplog.text


async def test_silent_workers_lose_their_jobs_and_lost_messages_are_enqueued_again(bench: Workbench) -> None:
    silent, busy, fresh = await bench.queued_job(), await bench.queued_job(), await bench.new_job()
    await held(bench, silent, ttl_s=0.0)
    assert isinstance(await taken(bench, busy, owner="b/1/x"), Lease)
    messages: list[TaskMessage] = []
    enqueued = await reconcile_once(bench.database, AT_ONCE, reconcile_s=1000, enqueuer=messages.append)
    assert enqueued == messages == [TaskMessage(RUN_JOB, silent)]
    assert (await bench.job(silent))["status"] == "queued"
    assert (await bench.job(busy))["status"] == "running"
    assert await reconcile_once(bench.database, AT_ONCE, reconcile_s=1000, enqueuer=messages.append) == []
    enqueued = await reconcile_once(bench.database, AT_ONCE, reconcile_s=0, enqueuer=messages.append)
    assert {(message.task_name, message.job_id) for message in enqueued} == {(RUN_JOB, silent), (VALIDATE_JOB, fresh)}


async def test_many_queued_jobs_are_enqueued_a_part_a_round_the_oldest_first(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All hosts are busy: each message would end in a refusal."""
    monkeypatch.setattr(reconciler, "_ENQUEUED", 2)
    queued = [await bench.queued_job() for _ in range(3)]
    unvalidated = [await bench.new_job() for _ in range(3)]
    await bench.do("update jobs set enqueued_at = null")

    async def enqueued() -> list[str]:
        work = reconcile_once(bench.database, AT_ONCE, reconcile_s=1000, enqueuer=bench.enqueued.append)
        return sorted(message.job_id for message in await work)

    assert await enqueued() == sorted([*unvalidated, *queued[:2]])
    assert await enqueued() == queued[2:]
    assert await enqueued() == []


async def test_lost_jobs_are_requeued_while_the_key_of_the_secrets_is_rotated(bench: Workbench, tmp_path: Path) -> None:
    silent = await bench.queued_job()
    await held(bench, silent, ttl_s=0.0)
    SecretBox.at(tmp_path)
    enqueued: list[TaskMessage] = []

    def meanwhile(_: float) -> None:
        enqueued.extend(asyncio.run(look()))

    async def look() -> list[TaskMessage]:
        async with Database(bench.database_url) as database:
            return await reconcile_once(database, AT_ONCE, reconcile_s=1000, enqueuer=bench.enqueued.append)

    await asyncio.to_thread(rotate_key, tmp_path / KEY_FILE, bench.database_url, sleep=meanwhile)
    assert enqueued == [TaskMessage(RUN_JOB, silent)]


async def test_a_worker_of_this_machine_that_is_gone_is_not_waited_for(bench: Workbench) -> None:
    running, orphaned = await bench.queued_job(), await bench.queued_job()
    assert isinstance(await taken(bench, running, owner=new_owner()), Lease)
    assert isinstance(await taken(bench, orphaned, owner=await dead_owner(), slots=2), Lease)
    messages: list[TaskMessage] = []
    await reconcile_once(bench.database, AT_ONCE, reconcile_s=1000, enqueuer=messages.append)
    assert messages == [TaskMessage(RUN_JOB, orphaned)]
    assert ((await bench.job(orphaned))["status"], (await bench.job(running))["status"]) == ("queued", "running")


@pytest.mark.parametrize("owner", ["elsewhere/1/x", "{here}/other-machine", "", "a/b/c"])
def test_nobody_else_is_declared_dead(owner: str) -> None:
    owner = owner.replace("{here}", new_owner().rsplit("/", 1)[0])
    assert is_surely_dead(owner) is False


async def test_one_reconciler_at_a_time(bench: Workbench) -> None:
    await bench.queued_job()
    await bench.do("update jobs set enqueued_at = null")
    outcomes = await asyncio.gather(
        *(reconcile_once(bench.database, AT_ONCE, reconcile_s=1000, enqueuer=bench.enqueued.append) for _ in range(4))
    )
    assert sum(map(len, outcomes)) == 1
    job_id = await bench.new_job()
    async with bench.database.transaction() as connection:
        await connection.execute("select pg_advisory_xact_lock(7304201119)")
        assert await reconcile_once(bench.database, AT_ONCE, reconcile_s=0, enqueuer=bench.enqueued.append) == []
    assert (await bench.job(job_id))["status"] == "validating_files"


async def test_a_broker_that_is_away_does_not_stop_the_reconciler(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    await bench.do("update jobs set enqueued_at = null")
    heard = asyncio.Event()
    attempts: list[TaskMessage] = []
    loop = asyncio.get_running_loop()

    def enqueue(message: TaskMessage) -> None:
        attempts.append(message)
        if len(attempts) < 3:
            raise ConnectionRefusedError
        loop.call_soon_threadsafe(heard.set)

    bench.changed_settings = {"reconcile_s": 0.05}
    task = asyncio.create_task(reconcile_forever(bench.database, settings=bench.settings, enqueuer=enqueue))
    await asyncio.wait_for(heard.wait(), PATIENCE_S)
    task.cancel()
    assert set(attempts) == {TaskMessage(RUN_JOB, job_id)}
