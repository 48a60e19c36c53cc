"""Ends whose teller wants to know whether the customer's servers took them, and not only that the service heard."""

import asyncio
import io
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.graders import StringCheckGrader
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.ids import trace_id
from rft.core.spec import RetryBudget, RunSpec, ToolServer
from rft.gateway_service.connection import ServiceConnection
from rft.run_directory import layout
from rft.run_directory.files import write_spec
from rft.run_directory.open_rollouts import OpenRolloutsFile
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.tool_gateway.service_wire import ENDED_TOLD
from rft.trainer.tell_left_open import main
from tests.integration.gateways.conftest import CALLBACK_PATH, TOKEN, Town

LEFT_OPEN = [trace_id(UUID(int=number)) for number in (1, 2)]


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a run that is over and whose trainer was killed."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f'{{"gateway_token": "{TOKEN}"}}'))
    journal = OpenRolloutsFile(tmp_path / layout.OPEN_ROLLOUTS)
    for one in LEFT_OPEN:
        journal.begin(one)
    journal.shut()
    return tmp_path


def run_of(town: Town, service_url: str) -> RunSpec:
    tool = ToolServer(name="echo", server_url=town.server.tool_url, callback_url=town.server.base_url + CALLBACK_PATH)
    return RunSpec(
        job_id="ftjob-1",
        seed=7,
        base_model="m",
        model_name="m",
        grader=StringCheckGrader(name="exact", input="a", reference="a", operation="eq"),
        hyperparameters=ResolvedHyperparameters(
            n_epochs=1, batch_size=2, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=2,
            eval_samples=1, group_size=4, steps=1,
        ),
        tools=(tool,),
        retry=RetryBudget(max_retries=0, first_wait_s=0.001),
        tool_gateway_url=service_url,
    )  # fmt: skip


def refuse(town: Town, monkeypatch: pytest.MonkeyPatch, trace_ids: list[str]) -> None:
    """The customer's server takes no ends of these."""
    answer = town.endpoint.answer

    async def refuse_some(call: ReceivedCall) -> HttpAnswer | Fault:
        is_refused = any(one in call.body.decode() for one in trace_ids)
        return HttpAnswer(503, b"") if is_refused else await answer(call)

    monkeypatch.setattr(town.endpoint, "answer", refuse_some)


async def test_an_end_that_the_customers_server_refused_stays_for_the_next_try(
    town: Town, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_spec(run_dir, run_of(town, town.run(town.service()).url))
    with monkeypatch.context() as for_now:
        refuse(town, for_now, LEFT_OPEN[1:])
        assert await asyncio.to_thread(main, [str(run_dir)]) == 1
    assert OpenRolloutsFile(run_dir / layout.OPEN_ROLLOUTS).left == LEFT_OPEN[1:]
    monkeypatch.setattr("sys.stdin", io.StringIO(f'{{"gateway_token": "{TOKEN}"}}'))
    assert await asyncio.to_thread(main, [str(run_dir)]) == 0
    assert OpenRolloutsFile(run_dir / layout.OPEN_ROLLOUTS).left == []


async def test_a_service_of_an_earlier_release_is_told_as_before(
    town: Town, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_spec(run_dir, run_of(town, town.run(town.service()).url))
    monkeypatch.setattr("rft.tool_gateway.remote.ENDED_TOLD", "rollouts/unknown")
    assert await asyncio.to_thread(main, [str(run_dir)]) == 0
    assert sorted(call.headers["idempotency-key"] for call in town.endpoint.calls) == [
        f"{one}/rollout.ended" for one in LEFT_OPEN
    ]


async def test_an_end_of_which_the_service_says_nothing_stays_for_the_next_try(
    town: Town, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service would take it otherwise, as one of an earlier release does, and it would count as told."""
    write_spec(run_dir, run_of(town, town.run(town.service()).url))
    call = ServiceConnection.call

    async def break_down(connection: ServiceConnection, operation: str, *given: Any, **more: Any) -> Any:
        if operation == ENDED_TOLD:
            return Failure(stage=Stage.PLATFORM, code=FailureCode.INTERNAL_ERROR, message="fell silent")
        return await call(connection, operation, *given, **more)

    monkeypatch.setattr(ServiceConnection, "call", break_down)
    assert await asyncio.to_thread(main, [str(run_dir)]) == 1
    assert OpenRolloutsFile(run_dir / layout.OPEN_ROLLOUTS).left == LEFT_OPEN
    assert town.endpoint.calls == []
