"""Ends of rollouts while no service is there to tell them: they wait for it, and nobody forgets them meanwhile."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.spec import RunSecrets, ToolServer
from rft.gateway_service.connection import OUR_RETRIES, Listener, ServiceConnection
from rft.gateway_service.wire import JobRegistration
from rft.tool_gateway.remote import RemoteToolGateway
from rft.tool_gateway.service_wire import ToolJob
from tests.integration.gateways.conftest import CALLBACK_PATH, TOKEN, Town
from tests.shared.free_port import free_port
from tests.shared.waiting import PATIENCE_S, until

TRACE = "trace_1"
LONG = 5 * OUR_RETRIES.max_retries
"""More attempts than any call has."""


@dataclass(slots=True)
class Book:
    """Rollouts that are open."""

    left: list[str] = field(default_factory=lambda: [TRACE])

    def begin(self, trace_id: str) -> None:
        self.left.append(trace_id)

    def end(self, trace_id: str, outcome: Grade | Failure) -> None:
        pass

    def close(self, trace_id: str, *, is_over: bool) -> None:
        self.left.remove(trace_id)


@dataclass(slots=True)
class Process:
    """One that tells ends: a trainer, or a rollout worker, which does not register the job."""

    gateway: RemoteToolGateway
    book: Book
    waits_s: list[float]
    """Between attempts; nobody really waits."""


def process(town: Town, port: int, *, is_worker: bool = False) -> Process:
    server = ToolServer(name="echo", server_url=town.server.tool_url, callback_url=town.server.base_url + CALLBACK_PATH)
    waits_s, book = list[float](), Book()

    async def sleep(wait_s: float) -> None:
        waits_s.append(wait_s)
        await asyncio.sleep(0)

    registration: JobRegistration | None = None if is_worker else ToolJob(tools=(server,), secrets=RunSecrets())
    connection = ServiceConnection(
        "tool gateway",
        f"http://127.0.0.1:{port}",
        token=TOKEN,
        job_id="ftjob-1",
        registration=registration,
        listener=Listener(),
        sleep=sleep,
    )
    return Process(RemoteToolGateway(connection, [server], open_rollouts=book), book, waits_s)


def outcomes(town: Town) -> list[object]:
    return [json.loads(call.body)["outcome"] for call in town.endpoint.calls]


async def test_an_end_waits_for_a_service_however_long_it_is_away(town: Town) -> None:
    port = free_port()
    trainer = process(town, port)
    async with trainer.gateway:
        trainer.gateway.ended(trace_id=TRACE, outcome=Grade(reward=0.5, grader="judge"))
        await until(lambda: len(trainer.waits_s) > LONG, "more attempts than any call has")
        assert trainer.book.left == [TRACE]
        town.run(town.service(port=port))
        await trainer.gateway.all_told(PATIENCE_S)
        assert trainer.book.left == []
    assert outcomes(town) == ["graded"]
    assert 10.0 < max(trainer.waits_s) <= 30.0, "many that wait do not come all at once"


async def test_an_end_waits_for_a_service_that_hangs(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # Until the caller hangs up.
        writer.close()

    hanging = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    trainer = process(town, port)
    async with trainer.gateway:
        with monkeypatch.context() as soon:
            soon.setattr("rft.gateway_service.connection.CONTROL_S", 0.05)
            trainer.gateway.ended(trace_id=TRACE, outcome=None)
            await until(lambda: len(trainer.waits_s) > OUR_RETRIES.max_retries, "more attempts than any call has")
        hanging.close()
        town.run(town.service(port=port))
        await trainer.gateway.all_told(PATIENCE_S)
        assert trainer.book.left == []
    assert outcomes(town) == ["cancelled"]


async def test_an_end_that_was_not_told_before_its_process_ended_is_left_to_the_next(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.egress.drain_pending.DRAIN_S", 0.05)
    trainer, hurry = process(town, free_port()), asyncio.Event()
    trainer.gateway.ended(trace_id=TRACE, outcome=None)
    await until(lambda: len(trainer.waits_s) > LONG, "more attempts than any call has")
    hurry.set()
    await trainer.gateway.aclose(hurry)
    assert trainer.book.left == [TRACE]


async def test_a_rollout_worker_does_not_wait_for_a_job_that_is_over(town: Town) -> None:
    service = town.run(town.service())
    worker = process(town, service.port, is_worker=True)
    async with worker.gateway:
        worker.gateway.ended(trace_id=TRACE, outcome=None)
        await worker.gateway.all_told(PATIENCE_S)
        assert worker.book.left == []
    assert len(worker.waits_s) == OUR_RETRIES.max_retries
