"""A cancelled job is over at once, whatever its trainer still does."""

import asyncio
from typing import Any

import pytest

from rft.platform.files.service import delete_file
from rft.platform.lifecycle.job_lease import Refusal, take, take_for_validation
from rft.platform.lifecycle.lease import Cancelled, Lease, renew
from rft.platform.lifecycle.owner import host_of, is_alive, new_owner
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.event_log import EventLog
from rft.platform.worker.run_job import run_job
from rft.run_directory import layout
from tests.integration.worker.running import cancel
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import until

OVER = {"lease_owner": None, "lease_until": None, "may_have_open_rollouts": False}


async def counted(bench: Workbench, job_id: str) -> dict[str, Any]:
    """Rows of everything that a trainer's events become."""
    rows = await bench.all(
        "select (select count(*) from steps where job_id = id) as steps,"
        " (select count(*) from rollouts where job_id = id) as rollouts,"
        " (select count(*) from checkpoints where job_id = id) as checkpoints,"
        " (select count(*) from job_events where job_id = id) as events,"
        " cardinality(result_files) as result_files from jobs where id = %s",
        job_id,
    )
    return rows[0]


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_cancelling_a_running_job_stops_its_trainer(bench: Workbench, is_deaf: bool) -> None:
    job_id = await bench.queued_job()
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),), is_deaf=is_deaf))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    cancelled = await cancel(bench, job_id)
    assert (cancelled["status"], cancelled["finished_at"] is None) == ("cancelled", False)
    async with unit_of_work(bench.database) as uow:  # Nothing needs its files any more.
        await delete_file(uow, bench.context().file_store, cancelled["training_file"])
    assert await task == "cancelled"
    assert not is_alive(bench.launches[-1])
    assert await bench.job(job_id) == cancelled | OVER
    assert (await bench.messages(job_id))[-1] == "Fine-tuning job cancelled"


async def test_a_cancelled_job_keeps_its_slot_until_its_trainer_has_stopped(bench: Workbench) -> None:
    """However long that takes: two trainers on one device would both fail."""
    bench.changed_settings = {"lease_ttl_s": 1.0, "heartbeat_s": 0.2, "trainer_grace_s": 4.0}
    job_id, other = await bench.queued_job(), await bench.queued_job()
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),), is_deaf=True))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    await cancel(bench, job_id)
    host, refused = host_of(new_owner()), 0
    while is_alive(bench.launches[-1]):
        async with bench.database.connection() as connection:
            taken = await take(connection, other, owner=f"{host}/1/other", ttl_s=60, slots=1)
        assert taken is Refusal.NO_SLOT or not is_alive(bench.launches[-1])
        refused += 1
        await asyncio.sleep(0.1)
    assert refused > 20, "its lease would have ended meanwhile"
    assert await task == "cancelled"
    async with bench.database.connection() as connection:
        assert isinstance(await take(connection, other, owner=f"{host}/1/other", ttl_s=60, slots=1), Lease)


async def test_nothing_that_a_cancelled_trainer_still_writes_counts(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.plan(Plan(steps=10_000, step_s=0.001, is_deaf=True))
    task = asyncio.create_task(run_job(job_id, bench.context()))

    async def has_steps() -> bool:
        return (await counted(bench, job_id))["steps"] >= 3

    await until(has_steps, "the first steps", poll_s=0.01)
    cancelled = await cancel(bench, job_id)
    counts = await counted(bench, job_id)
    assert counts["result_files"] == 1
    assert await task == "cancelled"
    assert await counted(bench, job_id) == counts
    assert await bench.job(job_id) == cancelled | OVER
    beyond, _ = EventLog(bench.run_dir(job_id) / layout.EVENTS).read(after_seq=cancelled["last_event_seq"], start=0)
    assert beyond, "it wrote on for a while"


async def test_a_job_that_is_cancelled_while_it_is_validated_is_over_at_once(bench: Workbench) -> None:
    job_id = await bench.new_job()
    async with bench.database.connection() as connection:
        lease = await take_for_validation(connection, job_id, owner="here/1/a", ttl_s=60)
    assert lease is not None
    assert (await cancel(bench, job_id))["lease_owner"] is None
    async with bench.database.connection() as connection:
        with pytest.raises(Cancelled):
            await renew(connection, lease, ttl_s=60)


async def test_a_queued_job_that_is_to_be_cancelled_never_starts(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    await bench.do("update jobs set is_cancel_requested = true where id = %s", job_id)
    assert await run_job(job_id, bench.context()) == "cancelled"
    assert (await bench.job(job_id))["status"] == "cancelled"
    assert bench.launches == []
