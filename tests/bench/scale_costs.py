"""What a rollout costs each process of a platform with workers: measured, for `tests.bench.scale`.

One burst over everything that `make bench-shards` runs: a rollout is four turns, three tool calls and a grade.
"""

import asyncio
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from rft.core.grade import Grade
from rft.platform.lifecycle.events import notify
from rft.platform.rollout_inbox.repository import open_inbox
from rft.platform.store.migrations import migrate
from rft.rollouts.shards.wire import Settled
from rft.rollouts.stats import to_rollout_done
from tests.bench.api import ATTEMPTS_PER_ROLLOUT
from tests.bench.api_data import Size as StoredSize
from tests.bench.api_data import fill
from tests.bench.api_server import postgres
from tests.bench.api_writes import Run, ingestion
from tests.bench.process_times import spent, times_by_role
from tests.bench.shards import CALLS, Bench, Size, running, saved_adapter, valkey_queue
from tests.shared.given_out_run import WorkerProcess, rows, spec_of, trainer_side

STORED = StoredSize(rollouts=20_000, steps=200, jobs=4)
NOTICES = 2_000


@dataclass(frozen=True, slots=True)
class Costs:
    """Processor milliseconds, and bytes."""

    tool_call_ms: float
    """Of the tool gateway's process, for each call."""
    grade_ms: float
    """Of the grader gateway's, for each grade."""
    inbox_api_ms: float
    """Of the API's process, for each rollout that goes out and comes back."""
    inbox_postgres_ms: float
    """Of the database's processes, for the same."""
    trainer_ms: float
    """Of the trainer's event loop, for each rollout."""
    worker_ms: float
    """Of the workers' processes, for each rollout."""
    broker_ms: float
    """Of the queue's process, for each rollout."""
    ingest_ms: float
    """Wall time of storing a rollout's events, its calls' and its tokens': one worker of the platform does it."""
    notify_ms: float
    """Wall time of telling all who listen that there is news, once for each batch of events."""
    wire_bytes: float
    """Of a rollout on its way from its worker to the trainer."""
    event_bytes: float
    """Of a rollout in the trainer's event log, without its tokens."""


async def measured_costs(size: Size) -> Costs:
    """Everything, one after the other. Wants a quiet machine."""
    with tempfile.TemporaryDirectory() as temporary:
        async with running(size, Path(temporary), valkey_queue()) as bench:
            by_role, trainer_s, bodies, events = await _burst(bench)
    rollouts = size.groups * size.group_size
    per_ms = {role: seconds / rollouts * 1e3 for role, seconds in by_role.items()}
    ingest_ms, notify_ms = await _stored()
    return Costs(
        tool_call_ms=per_ms["tool_gateway"] / CALLS,
        grade_ms=per_ms["grader_gateway"],
        inbox_api_ms=per_ms["api"],
        inbox_postgres_ms=per_ms["postgres"],
        trainer_ms=trainer_s / rollouts * 1e3,
        worker_ms=per_ms["workers"],
        broker_ms=per_ms["broker"],
        ingest_ms=ingest_ms,
        notify_ms=notify_ms,
        wire_bytes=bodies / rollouts,
        event_bytes=events / rollouts,
    )


async def _burst(bench: Bench) -> tuple[dict[str, float], float, int, int]:
    """Seconds by role, the trainer's own, and bytes of what came back and of what is told of it."""
    async with bench.database.transaction() as connection:
        token = await open_inbox(connection, bench.lease)
    spec = spec_of(bench.servers, job_id=bench.lease.id, base_model=bench.model, is_given_out=True, callback_url=None)
    workers = [WorkerProcess(bench.broker_url, bench.folder / f"{n}.log") for n in range(bench.size.workers)]
    try:
        await asyncio.gather(*(worker.ready() for worker in workers))
        side = trainer_side(
            spec, broker_url=bench.broker_url, inbox_token=str(token), folder=bench.folder / "costs",
            adapter=saved_adapter(bench.folder),
        )  # fmt: skip
        async with side as trainer:
            await trainer.step(rows(16), bench.size.group_size)
            before, before_s = times_by_role(), time.process_time()
            done = await trainer.step(rows(bench.size.groups), bench.size.group_size)
            by_role, trainer_s = spent(before, times_by_role()), time.process_time() - before_s
    finally:
        for worker in workers:
            worker.end()
    ended = [rollout for group in done.groups for rollout in group.rollouts]
    assert all(isinstance(rollout.outcome, Grade) for rollout in ended), "each was graded"
    bodies = sum(len(Settled(rollout=rollout).model_dump_json()) for rollout in ended)
    events = sum(len(to_rollout_done(rollout).model_dump_json()) for rollout in ended)
    return by_role, trainer_s, bodies, events


async def _stored() -> tuple[float, float]:
    """Milliseconds of storing what a trainer tells of a rollout, and of a notification."""
    async with postgres() as url:
        await migrate(url)
        run = Run(await asyncio.to_thread(fill, url, STORED))
        ledger = await ingestion(run, rollouts=STORED.rollouts // 4, attempts=ATTEMPTS_PER_ROLLOUT)
        alone = await ingestion(run, rollouts=STORED.rollouts // 4)
        tokens = await ingestion(run, rollouts=STORED.rollouts // 4, has_tokens=True)
        rates = [float(str(case["rollouts_per_s"])) for case in (ledger, tokens, alone)]
        ingest_ms = 1e3 / rates[0] + 1e3 / rates[1] - 1e3 / rates[2]
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            began_s = time.perf_counter()
            for _ in range(NOTICES):
                await notify(connection, run.stored.large_job)
            notify_ms = (time.perf_counter() - began_s) / NOTICES * 1e3
    return ingest_ms, notify_ms


def main() -> None:
    """Print them."""
    print(json.dumps(asdict(asyncio.run(measured_costs(Size()))), indent=2))


if __name__ == "__main__":
    main()
