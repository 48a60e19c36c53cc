"""What open pages of a running job cost the API: a stream for each, which all tell the same."""

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager

import aiohttp
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.repository import JOBS as JOBS_TABLE
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.log_line import read_line
from tests.bench.api_data import GRADERS, LEASE_TOKEN, OWNER, rollout_lines
from tests.bench.api_reads import JOBS
from tests.bench.api_server import Served
from tests.bench.api_writes import Crowd, Run, go_on, newest_event
from tests.bench.streams import cpu_s

ROLLOUTS_PER_S = 5
CPU_BAR = 0.10
"""Of one core."""
IDLE_S = 5.0


async def watching(served: Served, run: Run, *, watchers: int, seconds: int, idle_s: float = IDLE_S) -> JsonObject:
    """`watchers` streams of a job that ends five rollouts and tells its progress once a second: CPU of the API."""
    await go_on(run)
    async with _connection(run) as connection:
        lease = Lease(JOBS_TABLE, run.stored.large_job, LEASE_TOKEN, OWNER)
        ingest = Ingest(lease, GRADERS, "ft:tiny:local:bench:x")
        idle = await _cpu_share(served, asyncio.sleep(idle_s))
        crowd = Crowd(served, run.stored.large_job)
        async with crowd.watching(watchers, after_seq=await newest_event(run.stored)):
            async with _polling(served, run, pages=watchers):
                share = await _cpu_share(served, _emit(connection, run, ingest, lease, seconds))
            jobs_told = crowd.jobs_told
    return {
        "watchers": watchers,
        "seconds": seconds,
        "cpu_of_a_core": round(share, 4),
        "cpu_idle": round(idle, 4),
        "job_messages": jobs_told,
        "bar": {"cpu_of_a_core": CPU_BAR},
        # Each page hears of every second's progress, or nothing was watched.
        "passed": share <= CPU_BAR and jobs_told >= watchers * (seconds - 2),
    }


async def _cpu_share(served: Served, work: Coroutine[object, None, None]) -> float:
    """Of one core, by the API's process while the work is done."""
    began_s, began_cpu_s = time.monotonic(), cpu_s(served.pid)
    await work
    return (cpu_s(served.pid) - began_cpu_s) / (time.monotonic() - began_s)


@asynccontextmanager
async def _polling(served: Served, run: Run, *, pages: int) -> AsyncGenerator[None]:
    """What each open page asks again and again beside its stream (`web/src/data`): in turn, as they were opened."""
    headers = {"Authorization": f"Bearer {served.key}"}
    async with aiohttp.ClientSession(served.url, headers=headers) as http:

        async def ask(path: str, every_s: float) -> None:
            while True:
                await asyncio.sleep(every_s / pages)
                async with http.get(path) as reply:
                    assert reply.status == 200, await reply.text()
                    await reply.read()

        tasks = [asyncio.create_task(ask(path, every_s)) for path, every_s in _polls(run.stored.large_job).items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, asyncio.CancelledError) for error in ended), ended


def _polls(job_id: str) -> dict[str, float]:
    """Seconds between two requests of one page, by path."""
    return {f"{JOBS}/{job_id}/endpoints": 10.0, "/v1/dashboard/condition": 15.0}


async def _emit(connection: AsyncConnection[TupleRow], run: Run, ingest: Ingest, lease: Lease, seconds: int) -> None:
    run.step += 1
    ended = [line.event for line in rollout_lines(lease.id, run.step, ROLLOUTS_PER_S * seconds, after=0)]
    began_s = time.monotonic()
    for number, event in enumerate(ended):
        logged = [read_line(line.model_dump_json().encode() + b"\n") for line in run.lines(event)]
        async with connection.transaction():
            await ingest.batch(connection, logged)
        if number % ROLLOUTS_PER_S == 0:
            now = RoundProgress(step=run.step, split=Split.TRAIN, rollouts=len(ended), ended=number + 1)
            progress = RunProgress(activity=Activity.ROLLING_OUT, since=time.time(), round=now)
            await RunRepository(connection, lease).set_progress(progress)
        await asyncio.sleep(max(0.0, began_s + (number + 1) / ROLLOUTS_PER_S - time.monotonic()))


@asynccontextmanager
async def _connection(run: Run) -> AsyncGenerator[AsyncConnection[TupleRow]]:
    async with await AsyncConnection.connect(run.stored.database_url, autocommit=True) as connection:
        yield connection
