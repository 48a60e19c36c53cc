"""A tool gateway service, the customer's endpoint behind it, and a trainer's gateway in front of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.messages import ToolCall, ToolResult, ToolSchema
from rft.core.spec import RetryBudget, RunSecrets, ToolServer
from rft.egress.client import HttpClient
from rft.egress.endpoint import to_header_list
from rft.egress.failed_calls import FailedCalls
from rft.egress.limits import BreakerChange
from rft.egress.reply import Reply
from rft.gateway_service.connection import Listener, ServiceConnection
from rft.gateway_service.settings import ServiceSettings
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.app import create_app
from rft.tool_gateway.remote import RemoteToolGateway
from rft.tool_gateway.service_wire import ToolJob
from tests.shared.free_port import free_port
from tests.shared.running_service import RunningService

ECHO = ToolSchema(name="echo", parameters={"type": "object", "properties": {"text": {"type": "string"}}})
ITEM: JsonObject = {"messages": [{"role": "user", "content": "hi"}]}
TOKEN = "gate-token-31"
CALLBACK_PATH = "/rollouts"
SECRETS = RunSecrets(tool_headers={"echo": {"X-Key": "sesame-open"}})
FEW = RetryBudget(max_retries=2, first_wait_s=0.001)
"""What each call at the customer's endpoint may take, unless the test says otherwise."""


class GatedEndpoint(ScriptedEndpoint):
    """Says what it is told; keeps calls inside while its gate is closed."""

    def __init__(self) -> None:
        super().__init__(ScriptedTools({"echo": lambda arguments, item: str(arguments.get("text", ""))}))
        self.gate = asyncio.Event()
        self.gate.set()

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """The call's reply, or the fault that takes its place, once the gate is open."""
        await self.gate.wait()
        if call.path.startswith(CALLBACK_PATH):
            return HttpAnswer(204, b"")
        return await super().answer(call)


@dataclass(slots=True)
class Trainer:
    """A trainer's side: its gateway, and what it was told beside the results."""

    gateway: RemoteToolGateway
    attempts: list[Attempt]
    changes: list[BreakerChange]
    failed_calls: FailedCalls

    async def call(self, number: int = 1, *, item: JsonObject | None = None) -> ToolResult:
        call = ToolCall(call_id=f"call_{number}", name="echo", arguments='{"text": "hi"}')
        return await self.gateway.call(call, tools=[ECHO], item=item or ITEM, trace_id=f"trace_{number}")


class Town:
    """Everything of a test, on loopback."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.endpoint = GatedEndpoint()
        self.server = LoopbackEndpoint(self.endpoint)
        self.http = HttpClient()

    def service(self, *, port: int | None = None, max_calls_in_flight: int = 64, has_adaptive_limits: bool = False,
                token: str | None = TOKEN) -> RunningService:  # fmt: skip
        """A service that is not started yet; nobody takes its port while it is stopped."""
        settings = ServiceSettings(
            gateway_token=None if token is None else SecretStr(token),
            max_calls_in_flight=max_calls_in_flight,
            has_adaptive_limits=has_adaptive_limits,
        )
        return RunningService(create_app(settings), port=free_port() if port is None else port)

    def run(self, service: RunningService) -> RunningService:
        """Started, and stopped with the test."""
        return self._stack.enter_context(service)

    async def trainer(
        self,
        service_url: str,
        *,
        job_id: str = "ftjob-1",
        retry: RetryBudget = FEW,
        token: str | None = TOKEN,
        retries: RetryBudget | None = None,
        is_safe: bool = True,
        max_concurrency: int | None = None,
        callback_url: str | None = None,
        signing_secrets: tuple[str, ...] = (),
        launch: int = 1,
    ) -> Trainer:
        """A trainer of one job; `retries` at the service, `retry` at the customer's endpoint."""
        attempts: list[Attempt] = []
        changes: list[BreakerChange] = []
        failed_calls = FailedCalls()
        server = ToolServer(
            name="echo",
            server_url=self.server.tool_url,
            max_concurrency=max_concurrency,
            retry="safe" if is_safe else "unsafe",
            callback_url=callback_url,
        )
        secrets = SECRETS.model_copy(update={"signing_secrets": signing_secrets})
        connection = ServiceConnection(
            "tool gateway",
            service_url,
            token=token,
            job_id=job_id,
            registration=ToolJob(tools=(server,), retry=retry, secrets=secrets, launch=launch),
            listener=Listener(attempts.append, changes.append, failed_calls),
            retries=retries or RetryBudget(max_retries=100, first_wait_s=0.1, max_wait_s=0.5),
            poll_s=0.02,
        )
        gateway = await self._stack.enter_async_context(RemoteToolGateway(connection, [server]))
        return Trainer(gateway, attempts, changes, failed_calls)

    async def ask(self, method: str, url: str, body: bytes = b"", *, token: str | None = TOKEN) -> Reply:
        """One request of anybody's."""
        headers = to_header_list({} if token is None else {"Authorization": f"Bearer {token}"})
        reply = await self.http.ask(method, url, body, headers=headers, timeout_s=60.0)
        assert isinstance(reply, Reply)
        return reply


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack:
        made = Town(stack)
        await stack.enter_async_context(made.http)
        await stack.enter_async_context(made.server)
        yield made
