"""What open pages of a running job cost the API: a stream for each, which all tell the same, and what each asks for."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.events import TrainEvent
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from rft.platform.api.key_repository import create_key
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.repository import JOBS as JOBS_TABLE
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.log_line import read_line
from tests.bench.api_data import GRADERS, LEASE_TOKEN, OWNER, rollout_lines
from tests.bench.api_reads import JOBS
from tests.bench.api_server import Served
from tests.bench.api_writes import Crowd, Run, go_on, newest_event
from tests.bench.streams import cpu_s, slower_than_reference
from tests.shared.train_events import step_done

ROLLOUTS_PER_S = 5
ROLLOUTS_PER_STEP = 32
CPU_BAR = 0.10
"""Of one core."""
IDLE_S = 5.0
ASKED_AFTER_STEP = ("endpoints", "checkpoints?limit=100", "rollouts?limit=25")
"""By the page of a job when its stream tells of a new step (`web/src/data/live.ts`)."""


async def watching(served: Served, run: Run, *, watchers: int, seconds: int, idle_s: float = IDLE_S) -> JsonObject:
    """`watchers` pages of a job that ends five rollouts a second and tells its progress each second: CPU of the API.

    Every `ROLLOUTS_PER_STEP` rollouts a step ends, of which each page asks more than its stream tells.
    """
    await go_on(run)
    async with _connection(run) as connection:
        lease = Lease(JOBS_TABLE, run.stored.large_job, LEASE_TOKEN, OWNER)
        ingest = Ingest(lease, GRADERS, "ft:tiny:local:bench:x")
        slower = slower_than_reference()
        idle = await _cpu_share(served, asyncio.sleep(idle_s))
        crowd = Crowd(served, run.stored.large_job)
        async with crowd.watching(watchers, after_seq=await newest_event(run.stored)):
            keys = [await create_key(connection, "page") for _ in range(watchers)]
            async with _pages(served, run, keys) as pages:
                share = await _cpu_share(served, _emit(connection, run, ingest, lease, seconds, pages))
            jobs_told, asked = crowd.jobs_told, pages.asked
    calibrated = share / ((slower + slower_than_reference()) / 2)
    return {
        "watchers": watchers,
        "seconds": seconds,
        "cpu_of_a_core": round(share, 4),
        "cpu_of_a_core_calibrated": round(calibrated, 4),
        "cpu_idle": round(idle, 4),
        "job_messages": jobs_told,
        "requests_after_steps": asked,
        "bar": {"cpu_of_a_core": CPU_BAR},
        # Each page hears of every second's progress, or nothing was watched.
        "passed": share <= CPU_BAR and jobs_told >= watchers * (seconds - 2),
    }


async def _cpu_share(served: Served, work: Coroutine[object, None, None]) -> float:
    """Of one core, by the API's process while the work is done."""
    began_s, began_cpu_s = time.monotonic(), cpu_s(served.pid)
    await work
    return (cpu_s(served.pid) - began_cpu_s) / (time.monotonic() - began_s)


@dataclass(slots=True)
class _Pages:
    """What open pages ask beside their streams (`web/src/data`)."""

    http: aiohttp.ClientSession
    job_id: str
    keys: Sequence[str]
    """One for each page: of 50 browsers no two have the same session."""
    asked: int = 0
    """After steps."""

    async def poll(self, path: str, every_s: float) -> None:
        """Again and again: in turn, as they were opened."""
        for key in itertools.cycle(self.keys):
            await asyncio.sleep(every_s / len(self.keys))
            await self._get(path, key)

    async def after_step(self) -> None:
        """All of them at once."""
        paths = [f"{JOBS}/{self.job_id}/{part}" for part in ASKED_AFTER_STEP]
        await asyncio.gather(*(self._get(path, key) for key in self.keys for path in paths))
        self.asked += len(paths) * len(self.keys)

    async def _get(self, path: str, key: str) -> None:
        async with self.http.get(path, headers={"Authorization": f"Bearer {key}"}) as reply:
            assert reply.status == 200, await reply.text()
            await reply.read()


@asynccontextmanager
async def _pages(served: Served, run: Run, keys: Sequence[str]) -> AsyncGenerator[_Pages]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(served.url, connector=connector) as http:
        pages = _Pages(http, run.stored.large_job, keys)
        polls = _polls(pages.job_id).items()
        tasks = [asyncio.create_task(pages.poll(path, every_s)) for path, every_s in polls]
        try:
            yield pages
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, asyncio.CancelledError) for error in ended), ended


def _polls(job_id: str) -> dict[str, float]:
    """Seconds between two requests of one page, by path."""
    return {f"{JOBS}/{job_id}/endpoints": 10.0, "/v1/dashboard/condition": 15.0}


async def _emit(
    connection: AsyncConnection[TupleRow], run: Run, ingest: Ingest, lease: Lease, seconds: int, pages: _Pages
) -> None:
    began_s, total = time.monotonic(), ROLLOUTS_PER_S * seconds
    ended: list[TrainEvent] = []
    async with asyncio.TaskGroup() as asking:
        for number in range(total):
            of_step = number % ROLLOUTS_PER_STEP
            if of_step == 0:
                run.step += 1
                ended = [line.event for line in rollout_lines(lease.id, run.step, ROLLOUTS_PER_STEP, after=0)]
            is_last = of_step == ROLLOUTS_PER_STEP - 1
            told = [ended[of_step], *([step_done(run.step, run.step + 1000, evaluated=False)] if is_last else [])]
            logged = [read_line(line.model_dump_json().encode() + b"\n") for line in run.lines(*told)]
            async with connection.transaction():
                await ingest.batch(connection, logged)
            if is_last:
                asking.create_task(pages.after_step())
            if number % ROLLOUTS_PER_S == 0:
                now = RoundProgress(step=run.step, split=Split.TRAIN, rollouts=ROLLOUTS_PER_STEP, ended=of_step + 1)
                progress = RunProgress(activity=Activity.ROLLING_OUT, since=time.time(), round=now)
                await RunRepository(connection, lease).set_progress(progress)
            await asyncio.sleep(max(0.0, began_s + (number + 1) / ROLLOUTS_PER_S - time.monotonic()))


@asynccontextmanager
async def _connection(run: Run) -> AsyncGenerator[AsyncConnection[TupleRow]]:
    async with await AsyncConnection.connect(run.stored.database_url, autocommit=True) as connection:
        yield connection
