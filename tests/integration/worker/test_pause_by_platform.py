"""The platform could not finish a step: what was rolled out is void, and the job pauses and says why."""

import time

from rft.core.events import RoundRedone, RunEnded, RunStarted, TrainEvent
from rft.core.rollout import Split
from rft.platform.jobs import service
from rft.platform.jobs.objects import to_job_object
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.store.secret_box import KEY_FILE
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.run_job import run_job
from rft.run_directory.files import read_spec
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.scripted_trainer import Plan
from tests.integration.worker.test_pause import coded, resume
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import attempts_made, logged, rollout_done

WHY = "Twice in a row the platform could not finish 20 of 32 rollouts of step 2."
LOST = RunEnded(outcome="paused", best_step=None, error_code="platform_failure", error_message=WHY)


async def paused_job(bench: Workbench) -> str:
    job_id = await bench.queued_job()
    bench.plan(Plan(steps=1, ended=LOST))
    assert await run_job(job_id, bench.context()) == "over"
    return job_id


async def test_the_job_pauses_with_its_reason_and_goes_on_when_it_is_resumed(bench: Workbench) -> None:
    job_id = await paused_job(bench)
    job = await bench.job(job_id)
    assert (job["status"], job["lease_owner"], job["hold"], job["error"]) == ("paused", None, None, None)
    async with unit_of_work(bench.database) as uow:
        shown = to_job_object(await service.find_job(uow, job_id), bench.settings)
    assert shown.pause_reason is not None
    assert (shown.pause_reason.code, shown.pause_reason.message) == ("platform_failure", WHY)
    assert (shown.pause_reason.step, abs(shown.pause_reason.since - time.time()) < 600) == (1, True)
    told = (await bench.messages(job_id))[-1]
    assert told == f"The job is paused. {WHY} The checkpoint of step 1 can be used; resume the job to go on"
    assert await coded(bench, job_id) == [{"code": "paused", "step": 1, "reason": "platform_failure"}]
    assert await run_job(job_id, bench.context()) == "not_runnable", "nothing goes on by itself"
    bench.enqueued.clear()
    resumed = await resume(bench, job_id)
    assert (resumed.status, resumed.pause_reason, bench.enqueued) == ("queued", None, [TaskMessage(RUN_JOB, job_id)])
    bench.plan(Plan(steps=3))
    assert await run_job(job_id, bench.context()) == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["pause_reason"]) == ("succeeded", None)
    await bench.assert_every_step_once(job_id, steps=3)


async def test_a_job_waits_for_the_key_of_its_secrets(bench: Workbench) -> None:
    """As after a restore without `secret.key`, which is kept apart from the rest."""
    job_id = await bench.queued_job()
    bench.plan(Plan(steps=3))
    key = bench.settings.home / KEY_FILE
    kept = key.rename(key.with_name("kept"))
    assert await run_job(job_id, bench.context()) == "paused"
    job = await bench.job(job_id)
    assert (job["status"], job["lease_owner"], job["error"]) == ("paused", None, None)
    assert job["launches_without_progress"] == 0
    assert await coded(bench, job_id) == [{"code": "paused", "step": None, "reason": "secrets_unreadable"}]
    kept.replace(key)
    await resume(bench, job_id)
    assert await run_job(job_id, bench.context()) == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"


async def test_a_job_is_resumed_with_another_importance_gap(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    gap = RunEnded(outcome="paused", best_step=None, error_code="importance_gap", error_message="0.3 apart")
    bench.plan(Plan(steps=1, ended=gap))
    assert await run_job(job_id, bench.context()) == "over"
    assert read_spec(bench.run_dir(job_id)).max_importance_gap == bench.settings.max_importance_gap
    async with unit_of_work(bench.database, bench.enqueued.append) as uow:
        resumed = await service.resume_job(uow, job_id, max_importance_gap=0.5)
    assert resumed.pause_reason is None
    assert to_job_object(resumed, bench.settings).max_importance_gap == 0.5
    told = "The job is resumed with max_importance_gap 0.5; it is queued to go on from the checkpoint of step 1"
    assert (await bench.messages(job_id))[-1] == told
    for _ in range(2):  # Who resumes without a limit keeps the last one.
        assert await run_job(job_id, bench.context()) == "over"
        assert read_spec(bench.run_dir(job_id)).max_importance_gap == 0.5
        assert (await bench.job(job_id))["status"] == "paused"
        await resume(bench, job_id)


async def test_a_job_that_the_platform_paused_can_be_cancelled(bench: Workbench) -> None:
    job_id = await paused_job(bench)
    async with unit_of_work(bench.database) as uow:
        await service.cancel_job(uow, job_id)
    job = await bench.job(job_id)
    assert (job["status"], job["pause_reason"]) == ("cancelled", None)


async def test_an_end_that_nobody_read_pauses_the_job_too(bench: Workbench) -> None:
    """The worker died before it stored them; whoever takes the job next finds them."""
    ingest = await leased(bench)
    lines: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=3, pid=1), LOST]
    done = await store(bench, ingest, logged(lines))
    assert done.ended == LOST
    job = await bench.job(ingest.lease.id)
    assert (job["status"], job["lease_owner"], job["pause_reason"]["code"]) == ("paused", None, "platform_failure")
    assert job["pause_reason"]["step"] is None
    assert (await bench.messages(ingest.lease.id))[-1].endswith("Nothing is trained yet; resume the job to go on")


async def test_rollouts_of_a_step_that_is_rolled_out_anew_are_void(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    void = [rollout_done(job_id, 1, index) for index in range(4)]
    kept = rollout_done(job_id, 1, 0, split=Split.VALID)
    redone = RoundRedone(
        step=1,
        split=Split.TRAIN,
        rollouts=4,
        lost=2,
        failures_by_code={"platform_deadline": 2},
        message="All rollouts of step 1 are done anew: the platform could not finish 2 of 4.",
    )
    anew = rollout_done(job_id, 1, 5)
    lines: list[TrainEvent] = [
        RunStarted(resumed_from_step=None, total_steps=3, pid=1),
        *void,
        attempts_made(1, void[0].trace_id, None),
        kept,
        attempts_made(1, kept.trace_id, None),
        redone,
        anew,
        attempts_made(1, anew.trace_id, None),
    ]
    await store(bench, ingest, logged(lines))
    rows = await bench.all("select trace_id from rollouts where job_id = %s", job_id)
    assert {row["trace_id"] for row in rows} == {kept.trace_id, anew.trace_id}
    attempts = await bench.all("select trace_id from attempts where job_id = %s", job_id)
    assert {row["trace_id"] for row in attempts} == {kept.trace_id, anew.trace_id}
    [event] = await bench.all(
        "select level, message, data from job_events where job_id = %s and data->>'code' = 'rolled_out_anew'", job_id
    )
    assert (event["level"], event["message"]) == ("warn", redone.message)
    assert event["data"]["failures_by_code"] == {"platform_deadline": 2}
