"""Which job a slot is given to, and when."""

import asyncio

from rft.platform.worker.run_job import run_job
from tests.integration.worker.running import cancel, hanging_run
from tests.integration.worker.scripted_trainer import Plan
from tests.integration.worker.workbench import Workbench


async def test_a_cancelled_job_keeps_its_slot_until_its_trainer_has_stopped(bench: Workbench) -> None:
    first, second = await bench.queued_job(), await bench.queued_job()
    async with hanging_run(bench, first) as task:
        await cancel(bench, first)
        assert await run_job(second, bench.context()) == "no_slot"
        assert await task == "cancelled"
        assert second in [message.job_id for message in bench.enqueued]
        bench.plan(Plan())
        assert await run_job(second, bench.context()) == "over"


async def test_many_messages_make_one_runner(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    outcomes = await asyncio.gather(*(run_job(job_id, bench.context()) for _ in range(4)))
    assert sorted(outcomes) == ["not_runnable", "not_runnable", "not_runnable", "over"]
    assert len(bench.launches) == 1
    await bench.assert_every_step_once(job_id, steps=3)


async def test_slots_are_given_by_age_whatever_message_comes_first(bench: Workbench) -> None:
    jobs = sorted([await bench.queued_job() for _ in range(3)])
    await bench.do("update jobs set created_at = date_trunc('second', created_at)")
    await bench.do("update jobs set created_at = (select min(created_at) from jobs)")
    bench.enqueued.clear()
    for turn, asked in enumerate((jobs[2], jobs[2], jobs[2])):
        assert await run_job(asked, bench.context()) == "over"
        statuses = [(await bench.job(job_id))["status"] for job_id in jobs]
        assert statuses == ["succeeded"] * (turn + 1) + ["queued"] * (2 - turn)
    assert [message.job_id for message in bench.enqueued] == [jobs[2], jobs[1], jobs[2], jobs[2]]


async def test_a_lost_job_does_not_wait_for_an_older_one_that_never_ran(bench: Workbench) -> None:
    older, lost = await bench.queued_job(), await bench.queued_job()
    await bench.do("update jobs set status = 'running' where id = %s", lost)
    assert await run_job(lost, bench.context()) == "over"
    assert (await bench.job(older))["status"] == "queued"


async def test_an_older_job_that_may_not_run_is_passed_over(bench: Workbench) -> None:
    older, newer = await bench.queued_job(), await bench.queued_job()
    await bench.do("update jobs set is_pause_requested = true where id = %s", older)
    assert await run_job(newer, bench.context()) == "over"


async def test_a_full_host_leaves_the_job_in_the_queue_and_wakes_it_later(bench: Workbench) -> None:
    first, second = await bench.queued_job(), await bench.queued_job()
    bench.enqueued.clear()
    async with hanging_run(bench, first) as task:
        assert await run_job(second, bench.context()) == "no_slot"
        assert (await bench.job(second))["status"] == "queued"
        assert second not in [message.job_id for message in bench.enqueued]
        (bench.control / "go-on").touch()
        await task
    assert second in [message.job_id for message in bench.enqueued]
