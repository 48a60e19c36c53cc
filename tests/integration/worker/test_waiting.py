"""A queued job whose slot another job has says so, in its object and in its events."""

from typing import Any

from psycopg.types.json import Jsonb

from rft.core.job import JobStatus
from rft.platform.jobs.objects import JobObject, to_job_object
from rft.platform.jobs.repository import JobRepository
from rft.platform.lifecycle.job_lease import Refusal, release, take
from rft.platform.lifecycle.lease import Lease
from rft.platform.worker.reconciler import reconcile_once
from tests.integration.worker.workbench import AT_ONCE, Workbench
from tests.shared.train_events import hold_began

OWNER, ELSEWHERE = "here/1/a", "there/1/b"


async def run(bench: Workbench, job_id: str, *, owner: str = OWNER, slots: int = 1) -> Lease | Refusal:
    async with bench.database.connection() as connection:
        return await take(connection, job_id, owner=owner, ttl_s=600, slots=slots)


async def running(bench: Workbench, *, owner: str = OWNER, slots: int = 1) -> Lease:
    job_id = await bench.queued_job()
    await bench.do("update jobs set created_at = created_at - interval '1 day' where id = %s", job_id)  # Its turn.
    lease = await run(bench, job_id, owner=owner, slots=slots)
    assert isinstance(lease, Lease)
    return lease


async def shown(bench: Workbench, job_id: str) -> JobObject:
    async with bench.database.transaction() as connection:
        job = await JobRepository(connection).get(job_id)
    assert job is not None
    return to_job_object(job, bench.settings)


async def waits_for(bench: Workbench, job_id: str) -> dict[str, str | None] | None:
    holders = (await shown(bench, job_id)).waits_for
    return None if holders is None else {holder.job: holder.hold for holder in holders}


async def told(bench: Workbench, job_id: str) -> list[str]:
    return [message for message in await bench.messages(job_id) if message.startswith("Waits for")]


async def end(bench: Workbench, lease: Lease, status: JobStatus = JobStatus.SUCCEEDED) -> None:
    async with bench.database.transaction() as connection:
        await release(connection, lease, status)


async def hold(bench: Workbench, lease: Lease) -> None:
    document = hold_began(2).model_dump(mode="json", exclude={"type"}) | {"since": 0.0}
    await bench.do("update jobs set status = 'paused', hold = %s where id = %s", Jsonb(document), lease.id)


async def test_a_job_that_finds_the_slot_taken_names_the_one_who_has_it(bench: Workbench) -> None:
    first, waiting = await running(bench), await bench.queued_job()
    assert await waits_for(bench, waiting) is None
    assert await run(bench, waiting) is Refusal.NO_SLOT
    assert await waits_for(bench, waiting) == {first.id: None}
    assert await told(bench, waiting) == [f"Waits for the slot of job {first.id}"]


async def test_it_is_told_once_however_often_it_asks(bench: Workbench) -> None:
    await running(bench)
    waiting = await bench.queued_job()
    for _ in range(3):
        assert await run(bench, waiting) is Refusal.NO_SLOT
    assert len(await told(bench, waiting)) == 1
    events: list[dict[str, Any]] = await bench.all(
        "select data from job_events where data ->> 'code' = 'waits_for_slot'"
    )
    assert len(events) == 1


async def test_a_held_job_keeps_its_slot_and_that_is_said(bench: Workbench) -> None:
    held, early = await running(bench), await bench.queued_job()
    assert await run(bench, early) is Refusal.NO_SLOT
    await hold(bench, held)
    assert await waits_for(bench, early) == {held.id: "tool 'search'"}, "told already, and still true"
    late = await bench.queued_job()
    assert await run(bench, late) is Refusal.NO_SLOT
    assert await told(bench, late) == [f"Waits for the slot of job {held.id} (held, waits for tool 'search')"]


async def test_nothing_is_in_the_way_once_the_slot_is_free(bench: Workbench) -> None:
    first, waiting = await running(bench), await bench.queued_job()
    await run(bench, waiting)
    await end(bench, first)
    assert await waits_for(bench, waiting) is None
    assert isinstance(await run(bench, waiting), Lease)
    assert (await bench.job(waiting))["waits_for"] is None


async def test_the_next_one_in_the_slot_is_named_too(bench: Workbench) -> None:
    first, waiting = await running(bench), await bench.queued_job()
    await run(bench, waiting)
    await end(bench, first)
    second = await running(bench)
    await run(bench, waiting)
    assert await waits_for(bench, waiting) == {second.id: None}
    assert await told(bench, waiting) == [f"Waits for the slot of job {job}" for job in (first.id, second.id)]


async def test_a_job_that_ran_and_waits_again_says_it_again(bench: Workbench) -> None:
    first, waiting = await running(bench), await bench.queued_job()
    await run(bench, waiting)
    lease = await run(bench, waiting, slots=2)
    assert isinstance(lease, Lease)
    await end(bench, lease, JobStatus.QUEUED)
    assert await waits_for(bench, waiting) is None
    await run(bench, waiting)
    assert await told(bench, waiting) == [f"Waits for the slot of job {first.id}"] * 2


async def test_hosts_that_refuse_it_in_turn_are_told_together_and_once(bench: Workbench) -> None:
    here, there = await running(bench), await running(bench, owner=ELSEWHERE)
    waiting = await bench.queued_job()
    for owner in (OWNER, ELSEWHERE, OWNER, ELSEWHERE):
        assert await run(bench, waiting, owner=owner) is Refusal.NO_SLOT
    assert await waits_for(bench, waiting) == {here.id: None, there.id: None}
    both = ", ".join(sorted((here.id, there.id)))
    assert await told(bench, waiting) == [
        f"Waits for the slot of job {here.id}",
        f"Waits for one of the slots of jobs {both}",
    ]


async def test_a_job_that_is_not_queued_waits_for_nobody(bench: Workbench) -> None:
    await running(bench)
    waiting = await bench.queued_job()
    await run(bench, waiting)
    for status in ("paused", "cancelled"):
        await bench.do("update jobs set status = %s where id = %s", status, waiting)
        assert await run(bench, waiting) is Refusal.NO_SLOT
        assert await waits_for(bench, waiting) is None
    assert len(await told(bench, waiting)) == 1


async def test_a_job_whose_worker_fell_silent_is_in_nobodys_way(bench: Workbench) -> None:
    first, waiting = await running(bench), await bench.queued_job()
    await run(bench, waiting)
    await bench.do("update jobs set lease_until = now() - interval '1 second' where id = %s", first.id)
    assert await waits_for(bench, waiting) is None
    await bench.do("update jobs set created_at = created_at - interval '2 days' where id = %s", waiting)
    await reconcile_once(bench.database, AT_ONCE, reconcile_s=1000, enqueuer=bench.enqueued.append)
    assert isinstance(await run(bench, waiting), Lease)
    assert await run(bench, first.id) is Refusal.NO_SLOT
    assert await waits_for(bench, first.id) == {waiting: None}
