"""A scripted customer endpoint on a real socket, and a client whose retries do not wait long."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from typing import Protocol

import pytest

from rft.core.attempt import Attempt
from rft.core.failure import Failure, Stage
from rft.core.spec import RetryBudget
from rft.egress.client import HttpClient
from rft.egress.endpoint import Endpoint
from rft.egress.endpoint_client import Answer, EndpointClient
from rft.egress.limits import Limits
from rft.egress.reply import AttemptFailure, Reply, SizeCaps
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.contract import read_reply

BUDGET = RetryBudget(max_retries=3, total_s=300.0, first_wait_s=0.001, max_wait_s=0.002)
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "echo", "arguments": '{"text": "hi"}'}


class Bench:
    """One endpoint, one client, and what the client recorded."""

    def __init__(self, server: LoopbackEndpoint, client: EndpointClient, records: list[Attempt]) -> None:
        self.server, self.client, self.records = server, client, records

    def endpoint(
        self,
        *,
        timeout_s: float = 60.0,
        is_safe: bool = True,
        rate_limit: float | None = None,
        max_concurrency: int | None = None,
    ) -> Endpoint:
        return Endpoint(
            name="echo",
            stage=Stage.TOOL,
            url=self.server.tool_url,
            headers={"Authorization": "Bearer top-secret-token"},
            timeout_s=timeout_s,
            rate_limit=rate_limit,
            max_concurrency=max_concurrency,
            is_safe_to_repeat=is_safe,
        )

    async def post(self, endpoint: Endpoint | None = None, *, call_id: str = "call_1") -> Answer[str] | Failure:
        return await self.client.post_json(
            endpoint or self.endpoint(),
            {**CALL, "call_id": call_id},
            trace_id="trace_1",
            call_id=call_id,
            read=_read,
        )


def _read(reply: Reply) -> str | AttemptFailure:
    return f"{reply.status}" if reply.status >= 400 else read_reply(reply)


class MakeBench(Protocol):
    """Starts an endpoint with these faults and a client for it."""

    async def __call__(
        self,
        faults: Iterable[Fault | None] = (),
        *,
        last_stays: bool = False,
        latency_s: float = 0.0,
        retry: RetryBudget = BUDGET,
        max_in_flight: int = 512,
    ) -> Bench: ...


@pytest.fixture
async def make_bench() -> AsyncIterator[MakeBench]:
    async with AsyncExitStack() as stack:

        async def make(
            faults: Iterable[Fault | None] = (),
            *,
            last_stays: bool = False,
            latency_s: float = 0.0,
            retry: RetryBudget = BUDGET,
            max_in_flight: int = 512,
        ) -> Bench:
            endpoint = ScriptedEndpoint(
                ScriptedTools({"echo": lambda arguments, item: str(arguments["text"])}),
                ScriptedGrader(0.5),
                faults=FaultSequence(faults, last_stays=last_stays),
                latency_s=latency_s,
            )
            server = await stack.enter_async_context(LoopbackEndpoint(endpoint))
            records: list[Attempt] = []
            http = HttpClient(caps=SizeCaps())
            client = EndpointClient(http, limits=Limits.fixed(max_in_flight), retry=retry, on_attempt=records.append)
            await stack.enter_async_context(client)
            return Bench(server, client, records)

        yield make
