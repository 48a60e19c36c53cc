"""What an hour of a running job leaves in the memory of a page that shows it."""

import asyncio
import time

from playwright.async_api import BrowserContext, CDPSession, Page, expect
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.events import Notice
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from rft.platform.lifecycle.events import notify
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.repository import JOBS as JOBS_TABLE
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.log_line import read_line
from tests.bench.api_data import GRADERS, LEASE_TOKEN, OWNER, rollout_lines
from tests.bench.api_server import Served
from tests.bench.api_writes import Run, go_on
from tests.shared.train_events import step_done

HEARTBEATS = 3600
"""One a second."""
HEARTBEATS_PER_STEP = 30
ROLLOUTS_PER_STEP = 150
"""Five a second."""
STEPS_PER_NOTICE = 4
WARM_UP_STEPS = 100
"""What a page keeps of a job is bounded (600 drawn steps): until then it fills up, however long it is open."""
GROWTH_BAR = 0.10
"""Of what is used after the warm-up."""
PATIENCE_MS = 60_000


async def live_hour(context: BrowserContext, served: Served, run: Run) -> JsonObject:
    """An hour's heartbeats, rollouts, steps and notices, as fast as they are stored; the heap after it is cleared."""
    await go_on(run)
    page = await context.new_page()
    client = await context.new_cdp_session(page)
    await page.goto(f"{served.url}/jobs/{run.stored.large_job}")
    await expect(page.locator(".liveness")).to_have_text("live", timeout=PATIENCE_MS)
    steps = HEARTBEATS // HEARTBEATS_PER_STEP
    async with await AsyncConnection.connect(run.stored.database_url, autocommit=True) as connection:
        await _steps(connection, run, WARM_UP_STEPS)
        await _has_seen(page, run.step)
        before = await _heap_megabytes(client)
        began_s = time.monotonic()
        await _steps(connection, run, steps)
        await _has_seen(page, run.step)
        took_s = time.monotonic() - began_s
    after = await _heap_megabytes(client)
    await page.close()
    growth = after / before - 1
    figures: JsonObject = {
        "heartbeats": HEARTBEATS,
        "rollouts": steps * ROLLOUTS_PER_STEP,
        "steps": steps,
        "megabytes_before": round(before, 2),
        "megabytes_after": round(after, 2),
        "growth": round(growth, 3),
        "wall_s": round(took_s, 1),
    }
    judged: JsonObject = {"bar": {"growth": GROWTH_BAR}, "passed": growth <= GROWTH_BAR}
    return figures | judged


async def _steps(connection: AsyncConnection[TupleRow], run: Run, count: int) -> None:
    """Each with its heartbeats and rollouts before it."""
    lease = Lease(JOBS_TABLE, run.stored.large_job, LEASE_TOKEN, OWNER)
    ingest = Ingest(lease, GRADERS, "ft:tiny:local:bench:x")
    for number in range(count):
        run.step += 1
        for beat in range(HEARTBEATS_PER_STEP):
            now = RoundProgress(step=run.step, split=Split.TRAIN, rollouts=80, ended=beat, calling={"search": beat})
            progress = RunProgress(activity=Activity.ROLLING_OUT, since=time.time(), round=now)
            async with connection.transaction():
                await RunRepository(connection, lease).set_progress(progress)
                await notify(connection, lease.id)
        ended = (line.event for line in rollout_lines(lease.id, run.step, ROLLOUTS_PER_STEP, after=0))
        lines = run.lines(*ended, step_done(run.step, run.step + 1000))
        if number % STEPS_PER_NOTICE == 0:
            lines += run.lines(Notice(level="warn", message=f"2 rollouts of step {run.step} were excluded"))
        async with connection.transaction():
            await ingest.batch(connection, [read_line(line.model_dump_json().encode() + b"\n") for line in lines])
        # The page's turn: what comes faster than it is drawn would be drawn at once.
        await asyncio.sleep(0.05)


async def _has_seen(page: Page, step: int) -> None:
    await expect(page.locator(".progress-row")).to_contain_text(f"Step {step} of", timeout=PATIENCE_MS)


async def _heap_megabytes(client: CDPSession) -> float:
    await client.send("HeapProfiler.enable")
    for _ in range(3):
        await client.send("HeapProfiler.collectGarbage")
    return (await client.send("Runtime.getHeapUsage"))["usedSize"] / 1e6
