"""Which jobs the page of endpoints counts, and how many it leaves out."""

from rft.core.endpoint_load import EndpointLoad, LimitReason, NamedLoad
from rft.core.failure import Stage
from rft.core.progress import Activity, RunProgress
from rft.platform.dashboard.recent_job_repository import recently_active
from tests.integration.worker.workbench import Workbench

LOAD = EndpointLoad(limit=0, reason=LimitReason.DOWN, changed_at=1.0, in_flight=0, queued=3, calls_per_s=0.0)
PROGRESS = RunProgress(
    activity=Activity.ROLLING_OUT,
    since=1.0,
    endpoints=(NamedLoad(stage=Stage.TOOL, endpoint="search", is_shared=False, load=LOAD),),
)
HOLD = '{"endpoint": "tool", "stage": "tool", "reason": "down", "since": 1.0, "step": 1}'


async def started(bench: Workbench, status: str, *, hold: str | None = None, ended_h: float | None = None) -> str:
    job_id = await bench.new_job()
    owner = "worker" if status == "running" or hold else None
    await bench.do(
        "update jobs set status = %s, started_at = clock_timestamp(), hold = %s::jsonb, progress = %s::jsonb,"
        " lease_owner = %s, lease_until = clock_timestamp() + interval '1 minute',"
        " finished_at = clock_timestamp() - make_interval(secs => %s * 3600.0) where id = %s",
        status, hold, PROGRESS.model_dump_json(), owner, ended_h, job_id,
    )  # fmt: skip
    return job_id


async def test_those_under_way_come_first_and_those_left_out_are_counted(bench: Workbench) -> None:
    await bench.new_job()
    ended = await started(bench, "succeeded", ended_h=2.0)
    await started(bench, "succeeded", ended_h=50.0)
    running, held = await started(bench, "running"), await started(bench, "paused", hold=HOLD)
    paused = await started(bench, "paused")
    async with bench.database.connection() as connection:
        all_jobs, count = await recently_active(connection, within_s=86_400.0, limit=20)
        few, same_count = await recently_active(connection, within_s=86_400.0, limit=2)
    assert [job.id for job in all_jobs] == [paused, held, running, ended]
    assert count == same_count == 4
    assert [job.id for job in few] == [paused, held]
    told = {job.id: job.progress for job in all_jobs}
    assert told[running] == told[held] == PROGRESS, "the one that waits for an endpoint tells of it, too"
    assert told[paused] is told[ended] is None


async def test_nobody_is_left_out_where_nobody_is(bench: Workbench) -> None:
    async with bench.database.connection() as connection:
        assert await recently_active(connection, within_s=86_400.0, limit=20) == ([], 0)
