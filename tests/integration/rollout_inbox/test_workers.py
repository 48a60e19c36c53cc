"""Rollouts on real workers: queue, database, gateway services and processes; model and customer alone are fakes."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from rft.core.failure import Stage
from rft.core.grade import Grade
from rft.core.rollout import Rollout
from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway import app as grader_gateway
from rft.platform.embedded.home import Home
from rft.platform.embedded.valkey import EmbeddedValkey
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.rollout_inbox.repository import open_inbox
from rft.platform.store.database import Database
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway import app as tool_gateway
from tests.integration.worker.workbench import Workbench
from tests.shared.given_out_run import (
    GATEWAY_TOKEN,
    TOOL_KEY,
    VLLM_KEY,
    Servers,
    TalkingVllm,
    WorkerProcess,
    rows,
    save_base_model,
    spec_of,
    trainer_side,
)
from tests.shared.homes import held_home
from tests.shared.rabbitmq import RabbitMq
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.running_service import RunningService
from tests.shared.waiting import until

CALLBACKS = "/callbacks"
Queue = EmbeddedValkey | RabbitMq


class Customer(ScriptedEndpoint):
    """Keeps the tool calls of all but the first rollouts waiting while its gate is shut."""

    def __init__(self) -> None:
        super().__init__(ScriptedTools({"search": lambda arguments, item: "0.173"}), ScriptedGrader(0.5))
        self.free_rollouts = 10**9
        self.seen: set[str] = set()
        """Rollouts that called."""
        self.free: set[str] = set()
        self.gate = asyncio.Event()
        self.ended: dict[str, str] = {}

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        if call.path.startswith(CALLBACKS):
            told = json.loads(call.body)
            if told["type"] == "rollout.ended":
                self.ended[told["trace_id"]] = told["outcome"]
            return HttpAnswer(204, b"")
        if call.path.startswith("/tool"):
            trace_id = json.loads(call.body)["trace_id"]
            is_free = len(self.seen) < self.free_rollouts or trace_id in self.free
            self.seen.add(trace_id)
            if is_free:
                self.free.add(trace_id)
            else:
                await self.gate.wait()
        return await super().answer(call)


@dataclass(slots=True)
class Place:
    """Everything that runs in a test."""

    customer: Customer
    vllm: TalkingVllm
    servers: Servers
    job_id: str
    inbox_token: str
    base_model: Path
    adapter: Path
    url: str


@pytest.fixture
async def place(migrated_url: str, tmp_path: Path) -> AsyncIterator[Place]:
    base_model, adapter = save_base_model(tmp_path / "tiny"), tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"r": 8}')
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    customer, vllm = Customer(), TalkingVllm(base_model)
    settings = ServiceSettings(gateway_token=SecretStr(GATEWAY_TOKEN), has_adaptive_limits=False)
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(LoopbackEndpoint(customer))
        engine = await stack.enter_async_context(LoopbackEndpoint(vllm))
        database = await stack.enter_async_context(Database(migrated_url))
        bench = Workbench(tmp_path, migrated_url, database)
        job_id = await bench.queued_job()
        async with database.transaction() as connection:
            lease = await take(connection, job_id, owner="host/1/x", ttl_s=3600.0, slots=1)
            assert isinstance(lease, Lease)
            token = await open_inbox(connection, lease)
        port = stack.enter_context(Served(bench.settings, ReceivedMessages()))
        gateways = [
            stack.enter_context(RunningService(make(settings)))
            for make in (tool_gateway.create_app, grader_gateway.create_app)
        ]
        servers = Servers(
            f"http://127.0.0.1:{port}", (engine.base_url,), endpoint.tool_url, endpoint.grader_url,
            gateways[0].url, gateways[1].url,
        )  # fmt: skip
        yield Place(customer, vllm, servers, job_id, str(token), base_model, adapter, endpoint.base_url)
        customer.gate.set()


@pytest.fixture
def start_worker(queue: Queue, tmp_path: Path) -> Iterator[Callable[[], WorkerProcess]]:
    workers: list[WorkerProcess] = []

    def start() -> WorkerProcess:
        workers.append(WorkerProcess(queue.url(), tmp_path / f"worker-{len(workers)}.log"))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


@pytest.fixture
def queue_home() -> Iterator[Home]:
    """Held, and apart from that of the queue which all tests share."""
    with held_home() as home:
        yield home


@pytest.fixture
async def own_valkey(queue_home: Home) -> AsyncIterator[EmbeddedValkey]:
    queue = EmbeddedValkey(queue_home)
    await queue.start()
    yield queue
    await queue.stop()


@pytest.fixture(params=[pytest.param("own_valkey", marks=pytest.mark.thorough), "rabbitmq"])
def queue(request: pytest.FixtureRequest) -> Queue:
    """Of each kind, and one that a test may stop."""
    return request.getfixturevalue(request.param)


def outcomes(ended: list[Rollout]) -> Counter[str]:
    return Counter(rollout.trace_id for rollout in ended)


@pytest.mark.parametrize("queue", ["own_valkey"], indirect=True)
async def test_rollouts_of_real_workers_survive_one_that_is_killed_in_mid_burst(
    place: Place, start_worker: Callable[[], WorkerProcess], queue: Queue, tmp_path: Path
) -> None:
    doomed, other = await asyncio.gather(start_worker().ready(), start_worker().ready())
    place.customer.free_rollouts = 12
    spec = spec_of(
        place.servers, job_id=place.job_id, base_model=place.base_model, is_given_out=True,
        callback_url=f"{place.url}{CALLBACKS}",
    )  # fmt: skip
    side = trainer_side(
        spec, broker_url=queue.url(), inbox_token=place.inbox_token, folder=tmp_path / "served", adapter=place.adapter
    )
    async with side as trainer:
        step = asyncio.create_task(trainer.step(rows(6), 8))
        await until(lambda: len(place.customer.seen) >= 48 and len(trainer.ended) == 12, "twelve to end")
        kept = set(outcomes(trainer.ended))
        doomed.kill()
        place.customer.gate.set()
        done = await step
        ended = [rollout for group in done.groups for rollout in group.rollouts]
        assert outcomes(ended) == outcomes(trainer.ended)
        assert len(outcomes(ended)) == 48 == outcomes(ended).total()
        assert all(isinstance(rollout.outcome, Grade) for rollout in ended), [rollout.outcome for rollout in ended]
        assert kept < set(outcomes(ended))
        assert {rollout.policy_version for rollout in ended} == {1}
        assert set(outcomes(ended)) <= {began.trace_id for began in trainer.began}
        anew = {began.trace_id for began in trainer.began} - set(outcomes(ended))
        assert anew, "the killed worker was at something"
        assert {notice.code for notice in trainer.notices} == {"rollout_worker_lost"}
        calls = [attempt for attempt in trainer.attempts if not attempt.call_id.startswith("rollout.")]
        of_tools = Counter(attempt.trace_id for attempt in calls if attempt.stage is Stage.TOOL)
        assert all(of_tools[trace_id] == 2 for trace_id in outcomes(ended)), "the ledger has every call"
        assert {body["model"] for body in place.vllm.sampled} == {f"{place.job_id}.1.v1"}
    # The run is closed, and the gateway service has told every end.
    assert {place.customer.ended[trace_id] for trace_id in outcomes(ended)} == {"graded"}
    assert set(place.customer.ended) >= anew
    assert other.stop() == 0
    for secret in (TOOL_KEY, VLLM_KEY, GATEWAY_TOKEN):
        assert secret not in other.said


async def test_a_queue_that_was_away_is_found_again_by_trainer_and_workers(
    place: Place, queue: Queue, start_worker: Callable[[], WorkerProcess], tmp_path: Path
) -> None:
    spec = spec_of(
        place.servers, job_id=place.job_id, base_model=place.base_model, is_given_out=True, callback_url=None
    )
    side = trainer_side(
        spec, broker_url=queue.url(), inbox_token=place.inbox_token, folder=tmp_path / "served",
        adapter=place.adapter,
    )  # fmt: skip
    worker = await start_worker().ready()
    async with side as trainer:
        await trainer.step(rows(1), 4)
        await queue.stop()
        step = asyncio.create_task(trainer.step(rows(6), 8))
        await until(lambda: "broker_down" in [notice.code for notice in trainer.notices], "the outage to be told")
        assert not step.done()
        await queue.start()
        done = await step
        ended = [rollout for group in done.groups for rollout in group.rollouts]
        assert len(outcomes(ended)) == 48 == outcomes(ended).total()
        assert all(isinstance(rollout.outcome, Grade) for rollout in ended), [rollout.outcome for rollout in ended]
        assert len(trainer.began) == 4 + 48, "nothing began twice"
        assert [notice.code for notice in trainer.notices if notice.code and "broker" in notice.code] == [
            "broker_down",
            "broker_up",
        ]
    assert worker.stop() == 0
    assert "leaving without" not in worker.said
