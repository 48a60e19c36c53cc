"""Rollout callbacks through the service: the customer hears of every beginning and every end."""

import asyncio
import json

import pytest

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.rollouts.gateways import RolloutHost
from rft.testing.faults import Fault, FaultKind, FaultSequence
from tests.integration.gateways.conftest import CALLBACK_PATH, ITEM, Town, Trainer
from tests.shared.waiting import PATIENCE_S, until

GRADED = Grade(reward=0.5, grader="judge")


def heard(town: Town) -> list[tuple[str, str, object]]:
    bodies = [json.loads(call.body) for call in town.endpoint.calls if call.path.startswith(CALLBACK_PATH)]
    return [(body["type"], body["trace_id"], body.get("outcome")) for body in bodies]


async def test_beginning_and_end_are_told(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url, callback_url=town.server.base_url + CALLBACK_PATH)
    host: RolloutHost = trainer.gateway
    assert await host.started(item=ITEM, trace_id="trace_1") is None
    host.ended(trace_id="trace_1", outcome=Grade(reward=0.5, grader="judge"))
    await until(lambda: len(heard(town)) == 2, "both callbacks")
    assert heard(town) == [("rollout.started", "trace_1", None), ("rollout.ended", "trace_1", "graded")]
    assert town.endpoint.calls[0].headers["x-key"] == "sesame-open"
    assert town.endpoint.calls[0].headers["idempotency-key"] == "trace_1/rollout.started"
    await until(lambda: len(trainer.attempts) == 2, "both attempts")


async def test_a_beginning_that_fails_is_the_rollouts_failure(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url, callback_url=town.server.tool_url)
    town.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=409)], last_stays=True)
    failure = await trainer.gateway.started(item=ITEM, trace_id="trace_1")
    assert failure is not None
    assert (failure.stage, failure.code, failure.status) == (Stage.TOOL, FailureCode.REJECTED, 409)


async def test_ends_are_told_before_the_job_is_over(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url, callback_url=town.server.base_url + CALLBACK_PATH)
    failure = Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="it gave no reply")
    for number in range(6):
        trainer.gateway.ended(trace_id=f"trace_{number}", outcome=failure if number % 2 else None)
    await trainer.gateway.aclose()
    told = {(trace_id, outcome) for kind, trace_id, outcome in heard(town) if kind == "rollout.ended"}
    assert told == {(f"trace_{number}", "failed" if number % 2 else "cancelled") for number in range(6)}


async def test_rollouts_whose_end_was_never_said_are_ended_with_the_job(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url, callback_url=town.server.base_url + CALLBACK_PATH)
    for number in range(3):
        await trainer.gateway.started(item=ITEM, trace_id=f"trace_{number}")
    trainer.gateway.ended(trace_id="trace_1", outcome=Grade(reward=0.5, grader="judge"))
    await trainer.gateway.aclose()
    ends = {trace_id: outcome for kind, trace_id, outcome in heard(town) if kind == "rollout.ended"}
    assert ends == {"trace_0": "cancelled", "trace_1": "graded", "trace_2": "cancelled"}


async def test_a_trainer_that_takes_a_job_over_begins_when_its_predecessors_rollouts_are_ended(town: Town) -> None:
    service = town.run(town.service())
    url = town.server.base_url + CALLBACK_PATH
    killed = await town.trainer(service.url, callback_url=url)
    await killed.gateway.started(item=ITEM, trace_id="trace_1")
    successor = await town.trainer(service.url, callback_url=url, launch=2)
    await successor.gateway.started(item=ITEM, trace_id="trace_2")
    assert heard(town) == [
        ("rollout.started", "trace_1", None),
        ("rollout.ended", "trace_1", "cancelled"),
        ("rollout.started", "trace_2", None),
    ]


async def successor_that_knows_of_one_end(town: Town) -> Trainer:
    """Of a killed trainer that left two rollouts open."""
    service = town.run(town.service())
    url = town.server.base_url + CALLBACK_PATH
    killed = await town.trainer(service.url, callback_url=url)
    for trace_id in ("trace_1", "trace_2"):
        await killed.gateway.started(item=ITEM, trace_id=trace_id)
    successor = await town.trainer(service.url, callback_url=url, launch=2)
    successor.gateway.ended(trace_id="trace_1", outcome=GRADED)
    return successor


async def test_a_trainer_that_takes_a_job_over_says_how_its_predecessors_rollouts_ended(town: Town) -> None:
    successor = await successor_that_knows_of_one_end(town)
    await successor.gateway.all_told(PATIENCE_S)
    await successor.gateway.started(item=ITEM, trace_id="trace_3")
    successor.gateway.ended(trace_id="trace_3", outcome=GRADED)
    await successor.gateway.aclose()
    assert sorted(heard(town)[2:4]) == [
        ("rollout.ended", "trace_1", "graded"),
        ("rollout.ended", "trace_2", "cancelled"),
    ]
    assert heard(town)[4:] == [("rollout.started", "trace_3", None), ("rollout.ended", "trace_3", "graded")]


async def test_what_a_predecessor_left_open_is_ended_with_a_successor_that_begins_nothing(town: Town) -> None:
    successor = await successor_that_knows_of_one_end(town)
    await successor.gateway.aclose()
    assert sorted(heard(town)[2:]) == [
        ("rollout.ended", "trace_1", "graded"),
        ("rollout.ended", "trace_2", "cancelled"),
    ]


async def test_calls_of_a_predecessor_that_end_late_tell_no_end_again(town: Town) -> None:
    service = town.run(town.service())
    url = town.server.base_url + CALLBACK_PATH
    killed = await town.trainer(service.url, callback_url=url)
    await killed.gateway.started(item=ITEM, trace_id="trace_1")
    town.endpoint.gate.clear()
    call = asyncio.create_task(killed.call(1))
    await town.endpoint.until(lambda endpoint: endpoint.in_flight == 1)
    successor = await town.trainer(service.url, callback_url=url, launch=2)
    successor.gateway.ended(trace_id="trace_1", outcome=GRADED)
    await successor.gateway.all_told(PATIENCE_S)
    town.endpoint.gate.set()
    assert (await call).failure is None
    await successor.gateway.aclose()
    assert heard(town) == [("rollout.started", "trace_1", None), ("rollout.ended", "trace_1", "graded")]


async def test_a_service_that_stops_cuts_ends_short_that_nobody_takes(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.gateway_service.app.DRAIN_S", 0.05)
    service = town.run(town.service())
    trainer = await town.trainer(service.url, callback_url=town.server.base_url + CALLBACK_PATH)
    await trainer.gateway.started(item=ITEM, trace_id="trace_1")
    town.endpoint.gate.clear()
    trainer.gateway.ended(trace_id="trace_1", outcome=Grade(reward=0.5, grader="judge"))
    await until(lambda: len(heard(town)) == 2, "the end to be under way")
    await asyncio.to_thread(service.stop)
    town.endpoint.gate.set()


async def test_a_rollout_goes_on_through_a_restart_of_the_service_and_ends_once(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url, callback_url=town.server.base_url + CALLBACK_PATH)
    await trainer.gateway.started(item=ITEM, trace_id="trace_1")
    await trainer.call(1)
    await asyncio.to_thread(service.stop)
    town.run(town.service(port=service.port))
    assert (await trainer.call(1)).failure is None
    assert heard(town) == [("rollout.started", "trace_1", None)], "its state is still needed"
    trainer.gateway.ended(trace_id="trace_1", outcome=Grade(reward=0.5, grader="judge"))
    await trainer.gateway.aclose()
    assert heard(town) == [("rollout.started", "trace_1", None), ("rollout.ended", "trace_1", "graded")]


async def test_nothing_is_sent_where_nobody_asked_for_it(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url)
    assert await trainer.gateway.started(item=ITEM, trace_id="trace_1") is None
    trainer.gateway.ended(trace_id="trace_1", outcome=None)
    await trainer.gateway.aclose()
    assert b'"jobs":0' in (await town.ask("GET", f"{service.url}/health")).body
    assert not town.endpoint.calls
