"""An endpoint that goes away and comes back, over real sockets: calls wait, nothing is lost."""

import asyncio
from dataclasses import replace

from standardwebhooks import Webhook

from rft.core.attempt import Attempt
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.spec import RetryBudget
from rft.egress.breaker import BreakerSettings, BreakerState
from rft.egress.client import HttpClient
from rft.egress.endpoint import Endpoint
from rft.egress.endpoint_client import Answer, EndpointClient
from rft.egress.limits import BreakerChange, Limits
from rft.egress.signing import Signer, new_secret
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.contract import read_reply
from tests.shared.free_port import free_port
from tests.shared.waiting import PATIENCE_S

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "echo", "arguments": '{"text": "hi"}'}
TOOLS = ScriptedTools({"echo": lambda arguments, item: str(arguments["text"])})
BUDGET = RetryBudget(max_retries=3, total_s=300.0, first_wait_s=0.01, max_wait_s=0.02)
FAST = BreakerSettings(failures_in_a_row=5, first_pause_s=0.02, max_pause_s=0.05)


async def post(client: EndpointClient, url: str, number: int = 0) -> Answer[str] | Failure:
    endpoint = Endpoint("echo", Stage.TOOL, url, timeout_s=60.0)
    return await client.post_json(
        endpoint, CALL, trace_id=f"trace_{number}", call_id="call_1", read=read_reply, owner="job"
    )


async def test_calls_wait_out_an_outage_and_all_succeed() -> None:
    changes: list[BreakerChange] = []
    is_open, records = asyncio.Event(), list[Attempt]()

    def on_change(change: BreakerChange) -> None:
        changes.append(change)
        if change.state is BreakerState.OPEN:
            is_open.set()

    server = LoopbackEndpoint(ScriptedEndpoint(TOOLS), port=free_port())
    limits = Limits.adaptive(64, breaker=FAST, on_change=on_change)
    async with EndpointClient(HttpClient(), limits=limits, retry=BUDGET, on_attempt=records.append) as client:
        calls = asyncio.gather(*(post(client, server.tool_url, number) for number in range(40)))
        await asyncio.wait_for(is_open.wait(), timeout=PATIENCE_S)
        async with LoopbackEndpoint(ScriptedEndpoint(TOOLS), port=server.port):
            outcomes = await asyncio.wait_for(calls, timeout=PATIENCE_S)
    assert all(isinstance(outcome, Answer) for outcome in outcomes)
    assert [change.state for change in changes][-2:] == [BreakerState.HALF_OPEN, BreakerState.CLOSED]
    assert changes[0].endpoint == server.tool_url
    assert changes[0].last_failure is not None
    assert changes[0].last_failure.code is FailureCode.CONNECT_ERROR
    assert max(outcome.attempts for outcome in outcomes) <= BUDGET.max_retries + 1


async def test_calls_and_probes_together_keep_the_owners_cap_at_the_server() -> None:
    faults = FaultSequence([Fault(FaultKind.STATUS, status=503)] * 30)
    host = ScriptedEndpoint(TOOLS, faults=faults, latency_s=0.005)
    endpoint_of = Endpoint("echo", Stage.TOOL, "", max_concurrency=1)
    async with LoopbackEndpoint(host) as server:
        endpoint = replace(endpoint_of, url=server.tool_url)
        async with EndpointClient(HttpClient(), limits=Limits.adaptive(64, breaker=FAST), retry=BUDGET) as client:
            calls = (
                client.post_json(endpoint, CALL, trace_id=f"trace_{n}", call_id="call_1", read=read_reply)
                for n in range(12)
            )
            outcomes = await asyncio.wait_for(asyncio.gather(*calls), timeout=PATIENCE_S)
    assert any(isinstance(outcome, Answer) for outcome in outcomes)
    assert any(not call.body for call in host.calls), "there were probes"
    assert host.max_in_flight == 1


async def test_one_refusal_with_retry_after_keeps_all_calls_away() -> None:
    host = ScriptedEndpoint(TOOLS, faults=FaultSequence([Fault(FaultKind.STATUS, status=429, retry_after="0.3")]))
    client = EndpointClient(HttpClient(), limits=Limits.fixed(1), retry=BUDGET)
    async with LoopbackEndpoint(host) as server, client:
        await asyncio.gather(*(post(client, server.tool_url, number) for number in range(5)))
    refused, *later = host.calls
    assert len(later) == 5
    assert min(call.at_s for call in later) - refused.at_s >= 0.3


async def test_an_endpoint_that_stays_away_is_given_up_with_its_last_failure() -> None:
    settings = BreakerSettings(failures_in_a_row=5, first_pause_s=0.01, max_pause_s=0.02, max_open_s=0.2)
    server = LoopbackEndpoint(ScriptedEndpoint(TOOLS), port=free_port())
    limits = Limits.adaptive(64, breaker=settings)
    async with EndpointClient(HttpClient(), limits=limits, retry=BUDGET) as client:
        calls = asyncio.gather(*(post(client, server.tool_url, number) for number in range(20)))
        outcomes = await asyncio.wait_for(calls, timeout=PATIENCE_S)
        late = await asyncio.wait_for(post(client, server.tool_url), timeout=PATIENCE_S)
    for outcome in (*outcomes, late):
        assert isinstance(outcome, Failure)
        assert outcome.code is FailureCode.CONNECT_ERROR
    assert isinstance(late, Failure)
    assert "it has been down for" in late.message
    assert late.attempts == 0


async def test_it_is_called_again_when_it_comes_back_after_all_hope_was_lost() -> None:
    settings = BreakerSettings(failures_in_a_row=3, first_pause_s=0.01, max_pause_s=0.02, max_open_s=0.05)
    server = LoopbackEndpoint(ScriptedEndpoint(TOOLS), port=free_port())
    back = asyncio.Event()

    def on_change(change: BreakerChange) -> None:
        if change.state is BreakerState.HALF_OPEN:
            back.set()

    limits = Limits.adaptive(64, breaker=settings, on_change=on_change)
    async with EndpointClient(HttpClient(), limits=limits, retry=BUDGET) as client:
        await asyncio.wait_for(
            asyncio.gather(*(post(client, server.tool_url, number) for number in range(10))), timeout=PATIENCE_S
        )
        async with LoopbackEndpoint(ScriptedEndpoint(TOOLS), port=server.port):
            await post(client, server.tool_url)
            await asyncio.wait_for(back.wait(), timeout=PATIENCE_S)
            assert isinstance(await post(client, server.tool_url), Answer)


async def test_faults_of_single_calls_do_not_hold_up_the_others() -> None:
    faults = FaultSequence([Fault(FaultKind.STATUS) if n % 4 == 0 else None for n in range(200)])
    endpoint = ScriptedEndpoint(TOOLS, faults=faults, latency_s=0.002)
    async with LoopbackEndpoint(endpoint) as server:
        client = EndpointClient(HttpClient(), limits=Limits.adaptive(64), retry=BUDGET)
        async with client:
            calls = asyncio.gather(*(post(client, server.tool_url, number) for number in range(100)))
            outcomes = await asyncio.wait_for(calls, timeout=PATIENCE_S)
    assert sum(isinstance(outcome, Answer) for outcome in outcomes) >= 97
    assert endpoint.max_in_flight <= 64


async def test_every_attempt_is_signed() -> None:
    secret = new_secret(b"k" * 32)
    endpoint = ScriptedEndpoint(TOOLS, faults=FaultSequence([Fault(FaultKind.STATUS)]))
    async with LoopbackEndpoint(endpoint) as server:
        client = EndpointClient(HttpClient(), limits=Limits.fixed(4), retry=BUDGET, signer=Signer([secret]))
        async with client:
            assert isinstance(await post(client, server.tool_url), Answer)
    assert [call.headers["webhook-id"] for call in endpoint.calls] == ["trace_0/call_1"] * 2
    for call in endpoint.calls:
        Webhook(secret).verify(call.body, dict(call.headers))


async def test_no_attempt_is_made_that_the_budget_would_cut_off() -> None:
    """It would end as the endpoint's timeout, whatever it had answered before."""
    refusal = Fault(FaultKind.STATUS, status=503, retry_after="19")
    endpoint = ScriptedEndpoint(TOOLS, faults=FaultSequence([refusal]))
    budget = RetryBudget(max_retries=3, total_s=20.0, first_wait_s=0.01, max_wait_s=0.02)
    async with (
        LoopbackEndpoint(endpoint) as server,
        EndpointClient(HttpClient(), limits=Limits.fixed(4), retry=budget) as client,
    ):
        failure = await post(client, server.tool_url)
    assert isinstance(failure, Failure)
    assert (failure.code, failure.status, failure.attempts) == (FailureCode.SERVER_ERROR, 503, 1)
