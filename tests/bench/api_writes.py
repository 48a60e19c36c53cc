"""What a running job writes: its trainer's log into rows, and from there to everybody who watches."""

import asyncio
import re
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.events import AttemptsMade, EventLine, Notice, RolloutDone, TrainEvent
from rft.core.spec import RunSecrets
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.repository import JOBS as JOBS_TABLE
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.worker.event_log import EventLog
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.log_line import read_line
from rft.platform.worker.trainer_run import TrainerRun
from rft.trainer.ledger import BATCH
from tests.bench.api_data import GRADERS, LEASE_TOKEN, OWNER, Stored, rollout_lines, tokens_told
from tests.bench.api_reads import JOBS, Latencies
from tests.bench.api_server import Served
from tests.shared.train_events import attempts_made, began, step_done

ROLLOUTS_PER_S_BAR = 5000.0
SSE_BAR_MS = 500.0
ROLLOUTS_PER_STEP = 1000
_STEP = re.compile(rb'^event: step\ndata: \{"id":"(\d+)"')
_NOTICE = re.compile(rb'^event: event\ndata: .*"message":"notice (\d+)"')


@dataclass(slots=True)
class Run:
    """The largest job's trainer and worker: what they say is numbered on from what is stored."""

    stored: Stored
    seq: int = 0
    step: int = 0

    def __post_init__(self) -> None:
        self.step = self.stored.size.steps

    def lines(self, *events: TrainEvent) -> list[EventLine]:
        """The next lines of the log."""
        first = self.seq + 1
        self.seq += len(events)
        return [EventLine(seq=seq, at=time.time(), event=event) for seq, event in enumerate(events, start=first)]

    def rollouts(self, count: int, attempts: int, *, has_tokens: bool = False) -> list[EventLine]:
        """The next step's rollouts as log lines: all begin, all end; then so many lines of the ledger for each.

        `has_tokens`: with their tokens, and how the trainer saw them.
        """
        self.step += 1
        told = [line.event for line in rollout_lines(self.stored.large_job, self.step, count, after=0)]
        ended = [event for event in told if isinstance(event, RolloutDone)]
        lines = self.lines(began(*ended))
        for number, rollout in enumerate(ended):
            lines += self.lines(*(tokens_told(rollout.trace_id, number) if has_tokens else ()), rollout)
        traces = [rollout.trace_id for rollout in ended]
        tries = [
            attempt
            for trace_id in traces
            for attempt in attempts_made(self.step, trace_id, *[None] * attempts).attempts
        ]
        batches = (tuple(tries[first : first + BATCH]) for first in range(0, len(tries), BATCH))
        ledger = (AttemptsMade(step=self.step, attempts=batch) for batch in batches)
        return [*lines, *self.lines(*ledger, step_done(self.step, self.step + 1000, evaluated=False))]


async def ingestion(run: Run, *, rollouts: int, attempts: int = 0, has_tokens: bool = False) -> JsonObject:
    """A trainer's log of so many rollouts, read and stored as the worker does, into the full table.

    With so many `attempts` each, or with tokens, it is told how these slow it down; the bar is on rollouts alone.
    """
    await go_on(run)
    with tempfile.TemporaryDirectory(prefix="rft-bench-log-") as folder:
        path = Path(folder) / "events.jsonl"
        first_seq = run.seq
        per_step = min(rollouts, ROLLOUTS_PER_STEP)
        _write(
            path,
            (
                line
                for _ in range(rollouts // per_step)
                for line in run.rollouts(per_step, attempts, has_tokens=has_tokens)
            ),
        )
        log_bytes = path.stat().st_size
        async with _worker(run, path, first_seq) as worker:
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            await worker.drain()
            wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        assert worker.last_seq == run.seq, "the whole log was stored"
    stored = rollouts // per_step * per_step
    bar: JsonObject = {} if attempts or has_tokens else {"rollouts_per_s": ROLLOUTS_PER_S_BAR}
    judged: JsonObject = {"bar": bar, "passed": stored / wall_s >= ROLLOUTS_PER_S_BAR} if bar else {}
    figures: JsonObject = {
        "rollouts_per_s": round(stored / wall_s, 1),
        "attempts_per_rollout": attempts,
        "worker_cpu_us_per_rollout": round(cpu_s / stored * 1e6, 1),
        "rollouts": stored,
        "log_kilobytes_per_rollout": round(log_bytes / stored / 1e3, 2),
        "wall_s": round(wall_s, 3),
    }
    return figures | judged


async def sse(served: Served, run: Run, *, watchers: int, seconds: float) -> JsonObject:
    """Watchers of one job, to whom two events a second come, every other one a step with all its metrics."""
    await go_on(run)
    crowd = Crowd(served, run.stored.large_job)
    async with (
        crowd.watching(watchers, after_seq=await newest_event(run.stored)),
        _connection(run.stored) as connection,
    ):
        for number in range(int(seconds * 2)):
            mark, committed_at = await _say_something(run, connection, number)
            crowd.committed[mark] = committed_at
            await asyncio.sleep(0.5)
        await crowd.has_heard(len(crowd.committed) * watchers)
    lags = Latencies(tuple(crowd.lags_ms()), 0)
    bar: JsonObject = {"lag_p95_ms": SSE_BAR_MS}
    figures: JsonObject = {f"lag_p{percent}_ms": round(lags.at(percent), 1) for percent in (50, 95, 99)}
    expected = len(crowd.committed) * watchers
    crowd_figures: JsonObject = {
        "watchers": watchers,
        "heard": len(lags.ms),
        "expected": expected,
        "bar": bar,
        "passed": len(lags.ms) == expected and lags.at(95) <= SSE_BAR_MS,
    }
    return figures | crowd_figures


@dataclass(slots=True)
class Crowd:
    """Everybody who watches one job, and when each of them heard what."""

    served: Served
    job_id: str
    committed: dict[bytes, float] = field(default_factory=dict[bytes, float])
    heard: list[tuple[bytes, float]] = field(default_factory=list[tuple[bytes, float]])
    jobs_told: int = 0
    """How often the job's object came to anybody."""
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def watching(self, watchers: int, *, after_seq: int) -> AsyncGenerator[None]:
        """All are connected and have the job's object."""
        headers = {"Authorization": f"Bearer {self.served.key}", "Last-Event-ID": str(after_seq)}
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            self.served.url, headers=headers, connector=connector, timeout=timeout
        ) as http:
            ready = [asyncio.Event() for _ in range(watchers)]
            tasks = [asyncio.create_task(self._watch(http, event)) for event in ready]
            try:
                async with asyncio.timeout(120):
                    await asyncio.gather(*(event.wait() for event in ready))
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def has_heard(self, count: int) -> None:
        """Everything came to everybody, or ten seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                while len(self.heard) < count:
                    self._has_news.clear()
                    await self._has_news.wait()

    def lags_ms(self) -> list[float]:
        """From the commit to the ear."""
        return [max(0.0, at - self.committed[mark]) * 1e3 for mark, at in self.heard if mark in self.committed]

    async def _watch(self, http: aiohttp.ClientSession, ready: asyncio.Event) -> None:
        async with http.get(f"{JOBS}/{self.job_id}/stream") as reply:
            assert reply.status == 200, await reply.text()
            rest = b""
            async for chunk in reply.content.iter_any():
                at = time.time()
                *messages, rest = (rest + chunk).split(b"\n\n")
                for message in messages:
                    ready.set()
                    self.jobs_told += message.startswith(b"event: job\n")
                    if (mark := _mark(message)) is not None:
                        self.heard.append((mark, at))
                        self._has_news.set()


def _mark(message: bytes) -> bytes | None:
    """What tells a step or a notice from all others; None for anything else."""
    if (step := _STEP.match(message)) is not None:
        return b"step " + step[1]
    notice = _NOTICE.match(message)
    return None if notice is None else b"notice " + notice[1]


async def _say_something(run: Run, connection: AsyncConnection[TupleRow], number: int) -> tuple[bytes, float]:
    """One event is stored; its mark, and when it was committed."""
    if number % 2:
        mark, lines = f"notice {number}", run.lines(Notice(level="info", message=f"notice {number}"))
    else:
        run.step += 1
        mark, lines = f"step {run.step}", run.lines(step_done(run.step, run.step + 1000))
    logged = [read_line(line.model_dump_json().encode() + b"\n") for line in lines]
    await _ingest(run).batch(connection, logged)
    return mark.encode(), time.time()


def _write(path: Path, lines: Iterable[EventLine]) -> None:
    with path.open("w") as file:
        for line in lines:
            file.write(line.model_dump_json() + "\n")


@asynccontextmanager
async def _worker(run: Run, log: Path, last_seq: int) -> AsyncGenerator[TrainerRun]:
    """What follows a trainer's log, without a trainer."""
    settings = Settings.model_validate({"home": str(log.parent), "DATABASE_URL": run.stored.database_url})
    async with Database(run.stored.database_url, max_connections=2) as database:
        yield TrainerRun(
            settings=settings,
            folder=log.parent,
            base_model=log.parent,
            secrets=RunSecrets(),
            beat=Heartbeat(database, _lease(run), 600, 60, time.monotonic(), on_lost=lambda: None),
            ingest=_ingest(run),
            log=EventLog(log),
            is_stopping=lambda: False,
            last_seq=last_seq,
        )


def _lease(run: Run) -> Lease:
    return Lease(JOBS_TABLE, run.stored.large_job, LEASE_TOKEN, OWNER)


def _ingest(run: Run) -> Ingest:
    return Ingest(_lease(run), GRADERS, "ft:tiny:local:bench:x")


async def go_on(run: Run) -> None:
    """Where the stored log ends."""
    async with _connection(run.stored) as connection:
        query = "select last_event_seq, current_step from jobs where id = %s"
        run.seq, run.step = await _row(await connection.execute(query, (run.stored.large_job,)))


async def newest_event(stored: Stored) -> int:
    """The number that a stream goes on after."""
    async with _connection(stored) as connection:
        query = "select max(seq) from job_events where job_id = %s"
        return (await _row(await connection.execute(query, (stored.large_job,))))[0]


async def _row(cursor: AsyncCursor[TupleRow]) -> TupleRow:
    row = await cursor.fetchone()
    assert row is not None
    return row


@asynccontextmanager
async def _connection(stored: Stored) -> AsyncGenerator[AsyncConnection[TupleRow]]:
    async with await AsyncConnection.connect(stored.database_url, autocommit=True) as connection:
        yield connection
