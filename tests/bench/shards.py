"""`make bench-shards`: 500 rollouts by four worker processes against the same in the trainer's process.

A real queue (Valkey, then RabbitMQ where the machine has it), database, API, gateway services and workers, each a
process; a vLLM server and a customer without model and work, in one more. A rollout is four turns of 0.2 s, three tool
calls of one to three seconds, and a grade.
Bars: every rollout ends once; at most 1.15 times the wall time in the trainer's process, and, with two workers killed
in mid-burst, beyond that only what it takes to notice and one longest rollout. Written to `var/bench/shards.json`; 1
when a bar is missed.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from pydantic import SecretStr

from rft.core.grade import Grade
from rft.gateway_service.settings import ServiceSettings
from rft.platform.embedded.home import Home
from rft.platform.embedded.valkey import EmbeddedValkey
from rft.platform.lifecycle.lease import Lease
from rft.platform.rollout_inbox.repository import open_inbox
from rft.platform.store.database import Database
from rft.platform.store.migrations import migrate
from rft.rollouts.shards.inbox_wire import SHARD_LEASE_S
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.bench.api_server import api, postgres
from tests.shared.given_out_run import (
    GATEWAY_TOKEN,
    Servers,
    TalkingVllm,
    WorkerProcess,
    leased_job,
    rows,
    save_base_model,
    spec_of,
    trainer_side,
)
from tests.shared.rabbitmq import RabbitMq, rabbitmq_program
from tests.shared.running_service import RunningService

CALLS, TURN_S, TOOL_S = 3, 0.2, (1.0, 3.0)
SLOWER, NOTICED_S = 1.15, SHARD_LEASE_S + 2.0
OUT = Path("var/bench/shards.json")


@dataclass(frozen=True, slots=True)
class Size:
    """How large the bench is."""

    groups: int = 125
    group_size: int = 4
    workers: int = 4
    killed: int = 2
    calls: int = CALLS
    tool_s: tuple[float, float] = TOOL_S


@dataclass(frozen=True, slots=True)
class Burst:
    """One step's rollouts."""

    wall_s: float
    rollouts: int
    graded: int
    began: int
    """More than `rollouts` where some began anew."""
    longest_s: float
    cpu_s: float
    """Of the trainer's process."""


async def serve_fakes(model: Path, size: Size) -> None:
    """vLLM and the customer's endpoint, until standard input ends."""
    noise = Random(7)
    customer = ScriptedEndpoint(
        ScriptedTools({"search": lambda arguments, item: "0.173"}),
        ScriptedGrader(0.5),
        latency_s=lambda in_flight: noise.uniform(*size.tool_s),
    )
    vllm = TalkingVllm(model, calls=size.calls, latency_s=TURN_S)
    async with LoopbackEndpoint(customer) as endpoint, LoopbackEndpoint(vllm) as engine:
        print(json.dumps([engine.base_url, endpoint.tool_url, endpoint.grader_url]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def serve_gateway(kind: str) -> None:
    """A gateway service, until standard input ends."""
    if kind == "tool":
        from rft.tool_gateway.app import create_app
    else:
        from rft.grader_gateway.app import create_app
    settings = ServiceSettings(gateway_token=SecretStr(GATEWAY_TOKEN), has_adaptive_limits=False)
    with RunningService(create_app(settings)) as service:
        print(json.dumps([service.url]), flush=True)
        sys.stdin.read()


@asynccontextmanager
async def _process(*arguments: str) -> AsyncGenerator[list[str]]:
    """Another process of this bench; what it says it serves."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.shards", *arguments, stdin=pipe, stdout=pipe
    )
    try:
        assert process.stdout is not None
        yield json.loads(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def valkey_queue() -> AsyncGenerator[str]:
    with tempfile.TemporaryDirectory(prefix="rft-bench-") as folder:
        home = Home(Path(folder))
        with home.hold():
            valkey = EmbeddedValkey(home)
            await valkey.start()
            try:
                yield valkey.url()
            finally:
                await valkey.stop()


@asynccontextmanager
async def rabbitmq_queue() -> AsyncGenerator[str]:
    program = rabbitmq_program()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="rft-bench-") as folder:
        server = RabbitMq(Path(folder), program)
        await server.start()
        try:
            yield server.url()
        finally:
            await server.stop()


@dataclass(slots=True)
class Bench:
    """Everything that runs, and one job whose rollouts are rolled out again and again."""

    size: Size
    servers: Servers
    broker_url: str
    database: Database
    lease: Lease
    folder: Path
    model: Path

    async def burst(
        self, name: str, *, is_given_out: bool, workers: Sequence[WorkerProcess] = (), kill_after_s: float = 0.0
    ) -> Burst:
        """One step, after a small one that opens all connections."""
        async with self.database.transaction() as connection:
            token = await open_inbox(connection, self.lease)
        spec = spec_of(
            self.servers, job_id=self.lease.id, base_model=self.model, is_given_out=is_given_out, callback_url=None
        )
        side = trainer_side(
            spec, broker_url=self.broker_url, inbox_token=str(token), folder=self.folder / name,
            adapter=saved_adapter(self.folder),
        )  # fmt: skip
        async with side as trainer:
            await trainer.step(rows(16), self.size.group_size)
            trainer.began.clear()
            began_s, cpu_s = time.perf_counter(), time.process_time()
            step = asyncio.create_task(trainer.step(rows(self.size.groups), self.size.group_size))
            if kill_after_s:
                await asyncio.sleep(kill_after_s)
                for worker in workers[: self.size.killed]:
                    worker.kill()
            done = await step
            wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        ended = [rollout for group in done.groups for rollout in group.rollouts]
        assert Counter(rollout.trace_id for rollout in ended).most_common(1)[0][1] == 1, "each ended once"
        return Burst(
            wall_s=round(wall_s, 2),
            rollouts=len(ended),
            graded=sum(isinstance(rollout.outcome, Grade) for rollout in ended),
            began=len({began.trace_id for began in trainer.began}),
            longest_s=round(max(rollout.duration_s for rollout in ended), 2),
            cpu_s=round(cpu_s, 2),
        )

    async def by_workers(self, name: str, *, kill_after_s: float = 0.0) -> Burst:
        """The same by worker processes of their own."""
        workers = [
            WorkerProcess(self.broker_url, self.folder / f"{name}-{number}.log") for number in range(self.size.workers)
        ]
        try:
            await asyncio.gather(*(worker.ready() for worker in workers))
            return await self.burst(name, is_given_out=True, workers=workers, kill_after_s=kill_after_s)
        finally:
            for worker in workers:
                worker.end()


def saved_adapter(folder: Path) -> Path:
    """A folder that looks like an adapter."""
    adapter = folder / "adapter"
    if not adapter.exists():
        adapter.mkdir()
        (adapter / "adapter_config.json").write_text('{"r": 8}')
        (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    return adapter


@asynccontextmanager
async def running(size: Size, folder: Path, broker: AbstractAsyncContextManager[str]) -> AsyncGenerator[Bench]:
    """All servers, and a job under a lease."""
    model = save_base_model(folder / "tiny")
    async with AsyncExitStack() as stack:
        database_url = await stack.enter_async_context(postgres())
        await migrate(database_url)
        broker_url = await stack.enter_async_context(broker)
        served = await stack.enter_async_context(api(database_url, BROKER_URL=broker_url))
        shape = (str(model), str(size.calls), *map(str, size.tool_s))
        vllm, tool, grader = await stack.enter_async_context(_process("--fakes", *shape))
        (tool_gateway,) = await stack.enter_async_context(_process("--gateway", "tool"))
        (grader_gateway,) = await stack.enter_async_context(_process("--gateway", "grader"))
        database = await stack.enter_async_context(Database(database_url))
        lease = await leased_job(database)
        servers = Servers(served.url, (vllm,), tool, grader, tool_gateway, grader_gateway)
        yield Bench(size, servers, broker_url, database, lease, folder, model)


async def measure(size: Size, broker: AbstractAsyncContextManager[str]) -> dict[str, Burst]:
    """Every case of one queue."""
    with tempfile.TemporaryDirectory() as temporary:
        async with running(size, Path(temporary), broker) as bench:
            local = await bench.burst("local", is_given_out=False)
            by_workers = await bench.by_workers("workers")
            killed = await bench.by_workers("killed", kill_after_s=0.4 * by_workers.wall_s)
    return {"in_process": local, "workers": by_workers, "two_killed": killed}


def report(bursts: dict[str, Burst], size: Size) -> dict[str, dict[str, object]]:
    """Each case with its bar, and whether it was kept."""
    rollouts, local = size.groups * size.group_size, bursts["in_process"]
    allowed_s = {
        "in_process": None,
        "workers": SLOWER * local.wall_s,
        "two_killed": SLOWER * local.wall_s + NOTICED_S + local.longest_s,
    }
    cases: dict[str, dict[str, object]] = {}
    for name, burst in bursts.items():
        limit_s = allowed_s[name]
        is_whole = burst.rollouts == burst.graded == rollouts and (name != "two_killed" or burst.began > rollouts)
        cases[name] = {
            "wall_s": burst.wall_s,
            "times_in_process": round(burst.wall_s / local.wall_s, 3),
            "rollouts": burst.rollouts,
            "graded": burst.graded,
            "began_anew": burst.began - burst.rollouts,
            "longest_rollout_s": burst.longest_s,
            "trainer_cpu_s": burst.cpu_s,
            "bar": {"rollouts": rollouts, "wall_s": None if limit_s is None else round(limit_s, 2)},
            "passed": is_whole and (limit_s is None or burst.wall_s <= limit_s),
        }
    return cases


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fakes", nargs=4)
    parser.add_argument("--gateway")
    arguments = parser.parse_args()
    if arguments.fakes:
        model, calls, least_s, most_s = arguments.fakes
        asyncio.run(serve_fakes(Path(model), Size(calls=int(calls), tool_s=(float(least_s), float(most_s)))))
        return 0
    if arguments.gateway:
        serve_gateway(arguments.gateway)
        return 0
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    brokers = {"valkey": valkey_queue, "rabbitmq": rabbitmq_queue if rabbitmq_program() else None}
    cases: dict[str, dict[str, object]] = {}
    for name, broker in brokers.items():
        if broker is None:
            continue
        measured = report(asyncio.run(measure(Size(), broker())), Size())
        cases |= {f"{name}_{case}": figures for case, figures in measured.items()}
    missing = [name for name, broker in brokers.items() if broker is None]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"cases": cases, "not_installed": missing}, indent=2) + "\n")
    print(OUT.read_text())
    return 0 if all(case["passed"] for case in cases.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
