"""A lease that has run out by the database's clock alone is not taken from a worker that lives."""

import asyncio
import os

import pytest

from rft.platform.lifecycle import expired_leases
from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease, keep_slot, renew
from rft.platform.lifecycle.owner import new_owner
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.worker.reconciler import leases_of, reconcile_once
from tests.integration.worker.running import cancel
from tests.integration.worker.workbench import Workbench
from tests.shared.turned_clock import TurnedClock


async def held(bench: Workbench, job_id: str, *, owner: str, ttl_s: float = 60.0) -> Lease:
    async with bench.database.connection() as connection:
        lease = await take(connection, job_id, owner=owner, ttl_s=ttl_s, slots=1)
    assert isinstance(lease, Lease)
    return lease


async def test_a_worker_keeps_its_job_when_the_clock_of_the_database_jumps(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or when the machine slept: its lease has run out, and it lives."""
    clock, leases = TurnedClock(monkeypatch, expired_leases), ExpiredLeases(patience_s=3.0)
    job_id, other = await bench.queued_job(), await bench.queued_job()
    lease = await held(bench, job_id, owner="a/1/x")

    async def look() -> list[TaskMessage]:
        clock.turn(2.0)
        return await reconcile_once(bench.database, leases, reconcile_s=0, enqueuer=bench.enqueued.append)

    async def jump() -> None:
        await bench.do("update jobs set lease_until = now() - interval '1 hour' where id = %s", job_id)

    for _ in range(3):
        await jump()
        assert await look() == [], "nor is anybody sent for the slot that it has"
        assert await look() == []
        assert (await bench.job(job_id))["status"] == "running"
        async with bench.database.connection() as connection:
            await renew(connection, lease, ttl_s=60)
        assert await look() == [TaskMessage(RUN_JOB, other)]
    await jump()
    assert [await look(), await look()] == [[], []]
    assert {message.job_id for message in await look()} == {job_id, other}, "it had the time of more than a beat"
    assert (await bench.job(job_id))["status"] == "queued"


async def test_a_worker_elsewhere_is_given_its_own_beat_and_not_that_of_the_process_that_looks(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rft up` beats every two seconds, a worker on another machine every fifteen."""
    bench.changed_settings = {"heartbeat_s": 2.0}
    clock, leases = TurnedClock(monkeypatch, expired_leases), leases_of(bench.settings)
    job_id = await bench.queued_job()
    await held(bench, job_id, owner="other/1/x")
    await bench.do("update jobs set lease_until = now() - interval '1 hour' where id = %s", job_id)
    for _ in range(2):
        await reconcile_once(bench.database, leases, reconcile_s=1000, enqueuer=bench.enqueued.append)
        assert (await bench.job(job_id))["status"] == "running"
        clock.turn(15.0)
    clock.turn(1.0)
    await reconcile_once(bench.database, leases, reconcile_s=1000, enqueuer=bench.enqueued.append)
    assert (await bench.job(job_id))["status"] == "queued"


async def test_a_job_to_be_paused_is_left_to_its_worker_when_the_clock_of_the_database_jumps(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker lives, and pauses it in good order."""
    clock, leases = TurnedClock(monkeypatch, expired_leases), ExpiredLeases(patience_s=3.0)
    job_id = await bench.queued_job()
    await held(bench, job_id, owner="a/1/x")
    query = "update jobs set is_pause_requested = true, lease_until = now() - interval '1 hour' where id = %s"
    await bench.do(query, job_id)
    for status in ("running", "running", "paused"):
        await reconcile_once(bench.database, leases, reconcile_s=0, enqueuer=bench.enqueued.append)
        assert (await bench.job(job_id))["status"] == status
        clock.turn(2.0)


async def test_a_cancelled_job_keeps_its_slot_when_the_clock_of_the_database_jumps(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trainer may still be in its grace."""
    clock, leases = TurnedClock(monkeypatch, expired_leases), ExpiredLeases(patience_s=3.0)
    job_id = await bench.queued_job()
    lease = await held(bench, job_id, owner="a/1/x")
    await cancel(bench, job_id)
    await bench.do("update jobs set lease_until = now() - interval '1 hour' where id = %s", job_id)
    for owner in ("a/1/x", "a/1/x", None):
        await reconcile_once(bench.database, leases, reconcile_s=1000, enqueuer=bench.enqueued.append)
        assert (await bench.job(job_id))["lease_owner"] == owner
        clock.turn(2.0)
    async with bench.database.connection() as connection:
        await keep_slot(connection, lease, ttl_s=60)
    assert (await bench.job(job_id))["lease_until"] is None


async def test_a_worker_of_this_machine_that_is_gone_is_not_waited_for_when_its_lease_had_run_out_before(
    bench: Workbench,
) -> None:
    dead = await asyncio.create_subprocess_exec("true")
    await dead.wait()
    job_id = await bench.queued_job()
    await held(bench, job_id, owner=new_owner().replace(f"/{os.getpid()}/", f"/{dead.pid}/"), ttl_s=0.0)
    leases = ExpiredLeases(patience_s=1000.0)
    enqueued = await reconcile_once(bench.database, leases, reconcile_s=1000, enqueuer=bench.enqueued.append)
    assert enqueued == [TaskMessage(RUN_JOB, job_id)]
