"""Between a trainer and a gateway service: whatever goes wrong there is healed, or is the platform's fault."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from rft.core.base import JsonObject
from rft.core.failure import FailureCode, Stage
from rft.core.failure import Fault as Blame
from rft.core.messages import ToolCall
from rft.core.spec import RetryBudget, ToolServer
from rft.egress.endpoint_client import encode_json
from rft.gateway_service import connection
from rft.gateway_service.wire import ServiceReply, encode
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, FaultSequence, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.contract import to_wire
from rft.tool_gateway.remote import RemoteToolGateway
from tests.integration.gateways.conftest import CALLBACK_PATH, ECHO, ITEM, TOKEN, Town
from tests.shared.free_port import free_port
from tests.shared.running_service import RunningService
from tests.shared.waiting import PATIENCE_S, until

NO_RETRIES = RetryBudget(max_retries=0)


async def test_every_attempt_comes_back_with_its_call(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url)
    town.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS), Fault(FaultKind.NOT_JSON)])
    result = await trainer.call(5)
    assert (result.output, result.attempts) == ("hi", 3)
    ledger = [(made.trace_id, made.call_id, made.attempt, made.code) for made in trainer.attempts]
    assert ledger == [
        ("trace_5", "call_5", 1, FailureCode.SERVER_ERROR),
        ("trace_5", "call_5", 2, FailureCode.INVALID_REPLY),
        ("trace_5", "call_5", 3, None),
    ]


async def test_a_service_that_was_restarted_is_told_of_the_job_again(town: Town) -> None:
    with town.service() as first:
        trainer = await town.trainer(first.url)
        assert (await trainer.call(1)).output == "hi"
    town.run(town.service(port=first.port))
    results = await asyncio.gather(*(trainer.call(number) for number in range(2, 12)))
    assert [result.output for result in results] == ["hi"] * 10
    assert len(town.endpoint.calls) == 11


async def test_a_restart_in_the_middle_of_a_call_is_outlived(town: Town) -> None:
    async with AsyncExitStack() as stack:
        town.endpoint.faults = FaultSequence([Fault(FaultKind.HANG)])
        first = stack.enter_context(town.service())
        trainer = await town.trainer(first.url)
        call = asyncio.create_task(trainer.call())
        await town.endpoint.until(lambda endpoint: endpoint.in_flight == 1)
        await asyncio.to_thread(first.stop)
    town.run(town.service(port=first.port))
    assert (await call).output == "hi"


async def test_a_call_that_may_not_be_repeated_is_not_sent_through_a_restart_again(town: Town) -> None:
    town.endpoint.faults = FaultSequence([Fault(FaultKind.HANG)])
    first = town.run(town.service())
    trainer = await town.trainer(first.url, is_safe=False)
    call = asyncio.create_task(trainer.call())
    await town.endpoint.until(lambda endpoint: endpoint.in_flight == 1)
    await asyncio.to_thread(first.stop)
    town.run(town.service(port=first.port))
    failure = (await call).failure
    assert failure is not None
    assert (failure.code, failure.fault) == (FailureCode.INTERNAL_ERROR, Blame.PLATFORM)
    assert len([received for received in town.endpoint.calls if received.body]) == 1


async def test_callbacks_of_such_a_tool_are_not_sent_through_a_restart_again_either(town: Town) -> None:
    town.endpoint.gate.clear()
    first = town.run(town.service())
    trainer = await town.trainer(first.url, is_safe=False, callback_url=town.server.base_url + CALLBACK_PATH)
    beginning = asyncio.create_task(trainer.gateway.started(item=ITEM, trace_id="trace_1"))
    await town.endpoint.until(lambda endpoint: endpoint.in_flight == 1)
    await asyncio.to_thread(first.stop)
    town.endpoint.gate.set()
    town.run(town.service(port=first.port))
    failure = await beginning
    assert failure is not None
    assert (failure.code, failure.fault) == (FailureCode.INTERNAL_ERROR, Blame.PLATFORM)
    assert len([received for received in town.endpoint.calls if received.body]) == 1


async def test_a_call_that_may_not_be_repeated_waits_for_the_job_to_be_told(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url, is_safe=False)
    line = connection.ServiceConnection(
        "tool gateway",
        service.url,
        token=TOKEN,
        job_id="ftjob-1",
        registration=None,
        listener=connection.Listener(),
        retries=RetryBudget(max_retries=200, first_wait_s=0.1, max_wait_s=0.1),
    )
    tool = ToolServer(name="echo", server_url=town.server.tool_url, retry="unsafe")
    async with RemoteToolGateway(line, [tool]) as worker:
        call = ToolCall(call_id="call_1", name="echo", arguments='{"text": "hi"}')
        result = asyncio.create_task(worker.call(call, tools=[ECHO], item=ITEM, trace_id="trace_1"))
        await asyncio.wait([result], timeout=0.3)
        assert await trainer.gateway.keep_registered() is None
        assert (await result).output == "hi"
    assert len(town.endpoint.calls) == 1


async def test_a_service_that_is_down_is_the_platforms_fault(town: Town) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    trainer = await town.trainer(gone, retries=RetryBudget(max_retries=2, first_wait_s=0.001))
    result = await trainer.call()
    assert result.output is None
    assert result.failure is not None
    assert (result.failure.stage, result.failure.code) == (Stage.PLATFORM, FailureCode.INTERNAL_ERROR)
    assert result.failure.fault is Blame.PLATFORM
    assert f"tool gateway service at {gone} could not be reached" in result.failure.message
    assert not town.endpoint.calls


class HangingService(ScriptedEndpoint):
    """Takes the job, and answers nothing from then on."""

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        return HttpAnswer(200, encode(ServiceReply())) if call.method == "PUT" else Fault(FaultKind.HANG)


@pytest.mark.parametrize(("is_safe", "sent"), [(True, 2), (False, 1)])
async def test_calls_do_not_wait_for_a_service_that_hangs_and_are_made_once_more_where_they_may(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, is_safe: bool, sent: int
) -> None:
    monkeypatch.setattr("rft.gateway_service.connection.CONTROL_S", 0.2)
    hanging = HangingService()
    async with LoopbackEndpoint(hanging) as service:
        trainer = await town.trainer(service.base_url, is_safe=is_safe)
        results = await asyncio.wait_for(
            asyncio.gather(*(trainer.call(number) for number in range(3))), timeout=PATIENCE_S
        )
    for result in results:
        assert result.failure is not None
        assert (result.failure.code, result.failure.fault) == (FailureCode.INTERNAL_ERROR, Blame.PLATFORM)
        assert "has answered nothing" in result.failure.message
    made = Counter(call.body for call in hanging.calls if call.method == "POST")
    assert sorted(made.values()) == [sent] * 3, made


async def test_a_service_that_comes_up_late_is_waited_for(town: Town) -> None:
    port = free_port()
    retries = RetryBudget(max_retries=200, first_wait_s=0.1, max_wait_s=0.1)
    trainer = await town.trainer(f"http://127.0.0.1:{port}", retries=retries)
    call = asyncio.create_task(trainer.call())
    done, _ = await asyncio.wait([call], timeout=0.3)
    assert not done
    town.run(town.service(port=port))
    assert (await call).output == "hi"


@pytest.mark.parametrize("token", [None, "another-token"])
async def test_the_wrong_token_is_refused_and_said_so_without_repeating_it(town: Town, token: str | None) -> None:
    service = town.run(town.service())
    failure = (await (await town.trainer(service.url, token=token)).call()).failure
    assert failure is not None
    assert failure.fault is Blame.PLATFORM
    assert "answered 401 (wrong_token)" in failure.message
    assert "another-token" not in failure.message
    assert TOKEN not in failure.message


async def test_something_else_at_the_services_address_is_no_service(town: Town) -> None:
    trainer = await town.trainer(town.server.base_url, retries=NO_RETRIES)
    failure = (await trainer.call()).failure
    assert failure is not None
    assert (failure.stage, failure.fault) == (Stage.PLATFORM, Blame.PLATFORM)


async def test_a_cancelled_call_is_cancelled_at_the_customers_endpoint_and_stays_in_the_ledger(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url)
    town.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS), Fault(FaultKind.HANG)])
    call = asyncio.create_task(trainer.call())
    await town.endpoint.until(lambda endpoint: len(endpoint.calls) == 2)
    call.cancel()
    await town.endpoint.until(lambda endpoint: endpoint.in_flight == 0)
    await until(lambda: len(trainer.attempts) == 2, "the attempts")
    assert [made.code for made in trainer.attempts] == [FailureCode.SERVER_ERROR, FailureCode.CANCELLED]
    assert (await trainer.call(2)).output == "hi"


async def test_a_job_that_is_done_is_forgotten(town: Town) -> None:
    service = town.run(town.service())
    trainer = await town.trainer(service.url)
    await trainer.call()
    address = f"{service.url}/v1/jobs/ftjob-1/breakers"
    assert (await town.ask("GET", address)).status == 200
    await trainer.gateway.aclose()
    assert (await town.ask("GET", address)).status == 404
    assert (await town.ask("DELETE", f"{service.url}/v1/jobs/ftjob-1")).status == 404


async def test_the_end_of_a_job_does_not_wait_for_a_service_that_fell_silent(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONTROL_S", 2.0)
    with town.service() as service:
        trainer = await town.trainer(service.url)
        await trainer.call()
    silent = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.HANG)], last_stays=True))
    async with LoopbackEndpoint(silent, port=service.port):
        await trainer.gateway.aclose()
        assert [call.method for call in silent.calls][-1] == "DELETE"


async def test_a_row_arrives_at_the_customer_as_it_does_in_process(town: Town) -> None:
    item: JsonObject = {"lone": "\ud800", "big": 10**30, "text": "Zürich \u2028", "none": None, "n": [1.0, 1, True]}
    service = town.run(town.service())
    result = await (await town.trainer(service.url)).call(item=item)
    assert result.output == "hi"
    call = ToolCall(call_id="call_1", name="echo", arguments='{"text": "hi"}')
    assert town.endpoint.calls[0].body == encode_json(to_wire(call, item=item, trace_id="trace_1"))


async def test_health_needs_no_token_and_counts(town: Town) -> None:
    service: RunningService = town.run(town.service())
    await (await town.trainer(service.url)).call()
    health = await town.ask("GET", f"{service.url}/health", token=None)
    assert health.status == 200
    assert b'"status":"ok","jobs":1,"calls":0' in health.body
