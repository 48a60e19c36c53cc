"""Rollout callbacks through the service: the customer hears of every beginning and every end."""

import json

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.rollouts.gateways import RolloutHost
from rft.testing.faults import Fault, FaultKind, FaultSequence
from tests.integration.gateways.conftest import CALLBACK_PATH, ITEM, Town
from tests.integration.waiting import until


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


async def test_nothing_is_sent_where_nobody_asked_for_it(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url)
    assert await trainer.gateway.started(item=ITEM, trace_id="trace_1") is None
    trainer.gateway.ended(trace_id="trace_1", outcome=None)
    await trainer.gateway.aclose()
    assert b'"jobs":0' in (await town.ask("GET", f"{service.url}/health")).body
    assert not town.endpoint.calls
