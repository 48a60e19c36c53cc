"""What a service is told in confidence goes to the customer's endpoint and nowhere else."""

import asyncio
import json
import logging

import pytest

from rft.core.failed_call import FailedCall
from rft.core.spec import RetryBudget, RunSecrets, ToolServer
from rft.gateway_service.wire import encode
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.tool_gateway.service_wire import ToolJob
from tests.integration.gateways.conftest import TOKEN, Town
from tests.shared.waiting import until

SECRET = "sesame-open"
SIGNING = "whsec_" + "c2VjcmV0LXNpZ25pbmcta2V5LW9mLXRoaXMtdGVzdC4h"


def registration(**secrets: object) -> ToolJob:
    server = ToolServer(name="echo", server_url="http://127.0.0.1:1/tool")
    return ToolJob(tools=(server,), secrets=RunSecrets.model_validate(secrets))


async def test_the_endpoint_gets_the_headers_and_nobody_else(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = Fault(FaultKind.STATUS, status=500, body=b"the key sesame-open is wrong")
    town.endpoint.faults = FaultSequence([echo], last_stays=True)
    service = town.run(town.service(has_adaptive_limits=True))
    trainer = await town.trainer(service.url, retry=RetryBudget(max_retries=1, first_wait_s=0.001))
    calls = [asyncio.create_task(trainer.call(number)) for number in range(6)]
    [first, *_] = [await call for call in calls]
    assert first.failure is not None
    assert "the key *** is wrong" in first.failure.message
    assert all(received.headers["x-key"] == SECRET for received in town.endpoint.calls)
    failed: list[FailedCall] = []
    await until(lambda: bool(failed.extend(trainer.failed_calls.take(0.0)) or failed), "word of what went wrong")
    assert {(one.endpoint, one.status, one.reply) for one in failed} == {("echo", 500, "the key *** is wrong")}
    assert {json.loads(one.request)["name"] for one in failed} == {"echo"}
    breakers = await town.ask("GET", f"{service.url}/v1/jobs/ftjob-1/breakers")
    assert SECRET not in breakers.body.decode()
    assert SECRET not in repr(trainer.attempts) + repr(trainer.changes) + repr(failed)
    assert SECRET not in caplog.text
    assert TOKEN not in caplog.text


async def test_an_outages_last_failure_is_told_without_the_key_it_repeats(town: Town) -> None:
    town.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=503, body=b"no sesame-open")], last_stays=True)
    service = town.run(town.service(has_adaptive_limits=True))
    trainer = await town.trainer(service.url, retry=RetryBudget(max_retries=3, first_wait_s=0.001))
    calls = [asyncio.create_task(trainer.call(number)) for number in range(12)]
    await until(lambda: bool(trainer.changes), "a change of the breaker")
    last = trainer.changes[0].last_failure
    assert last is not None
    assert "no ***" in last.message
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (encode(registration(tool_headers={"echo": {"X-Key": f"{SECRET}\nX: y"}})), "the value of header 'X-Key'"),
        (encode(registration(signing_secrets=[f"whsec_{SECRET}"])), "a signing secret"),
        (
            encode(registration()).replace(b'"tool_headers":{}', b'"tool_headers":{"echo":"sesame-open"}'),
            "tool_headers.echo",
        ),
        (encode(registration()).replace(b'"part_headers":{}', b'"unheard":"sesame-open"'), "unheard"),
    ],
)
async def test_a_bad_order_is_refused_without_repeating_it(
    town: Town, caplog: pytest.LogCaptureFixture, body: bytes, message: str
) -> None:
    caplog.set_level(logging.DEBUG)
    service = town.run(town.service())
    reply = await town.ask("PUT", f"{service.url}/v1/jobs/ftjob-1", body)
    assert reply.status == 422
    assert message in json.loads(reply.body)["error"]["message"]
    assert SECRET not in reply.body.decode()
    assert SECRET not in caplog.text
    assert b'"jobs":0' in (await town.ask("GET", f"{service.url}/health")).body


async def test_calls_are_signed_with_the_jobs_own_secrets(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url, signing_secrets=(SIGNING,))
    assert (await trainer.call()).output == "hi"
    assert town.endpoint.calls[0].headers["webhook-signature"].startswith("v1,")
    unsigned = await town.trainer(service.url, job_id="ftjob-2")
    await unsigned.call()
    assert "webhook-signature" not in town.endpoint.calls[1].headers
