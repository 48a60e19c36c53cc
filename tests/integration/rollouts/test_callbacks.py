"""Rollout callbacks over a real socket: signed, idempotent, retried, and told to the end."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from standardwebhooks import Webhook

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.egress_settings import EgressSettings
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolSchema
from rft.core.spec import RetryBudget, ToolServer
from rft.egress.breaker import BreakerState
from rft.egress.drain_pending import DRAIN_S
from rft.egress.endpoint import Endpoint
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.egress.signing import Signer, new_secret
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, FaultPlan, HttpAnswer, NoFaults, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.callbacks import RolloutCallbacks
from rft.tool_gateway.gateway import HttpToolGateway
from tests.shared.free_port import free_port
from tests.shared.waiting import PATIENCE_S, until

BUDGET = RetryBudget(max_retries=3, total_s=60.0, first_wait_s=0.001, max_wait_s=0.002)
SECRET = new_secret(b"n" * 32)
ITEM: JsonObject = {"messages": [], "machine": "small"}
GRADE = Grade(reward=0.25, grader="g")


class HostEndpoint(ScriptedEndpoint):
    """Answers callbacks as a host would: with whatever it likes."""

    takes_s = 0.0

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        fault = self.faults.next(call)
        await asyncio.sleep(self.takes_s)
        return fault or HttpAnswer(202, b"all right", {"content-type": "text/plain"})


class MachineHost(HostEndpoint):
    """Has a few machines: whoever begins waits until an end frees one."""

    def __init__(self, machines: int) -> None:
        super().__init__()
        self.free = asyncio.Semaphore(machines)

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        kind = json.loads(call.body)["type"]
        if kind in ("function_call", "grade"):
            return HttpAnswer(200, b'{"output": "done"}')
        if kind == "rollout.started":
            await self.free.acquire()
        else:
            self.free.release()
        return HttpAnswer(204, b"")


class Script:
    """Faults by callback type."""

    def __init__(self, **faults: Fault) -> None:
        self._faults = {name.replace("_", "."): fault for name, fault in faults.items()}

    def next(self, call: ReceivedCall) -> Fault | None:
        return self._faults.get(json.loads(call.body)["type"])


@asynccontextmanager
async def host(faults: FaultPlan | None = None, *, takes_s: float = 0.0) -> AsyncGenerator["Host"]:
    endpoint, book = HostEndpoint(faults=faults or NoFaults()), Book()
    endpoint.takes_s = takes_s
    attempts: list[Attempt] = []
    async with (
        LoopbackEndpoint(endpoint) as server,
        EndpointClient.open(retry=BUDGET, signer=Signer([SECRET]), on_attempt=attempts.append) as client,
    ):
        tools = [
            ToolServer(name="shell", server_url=f"{server.base_url}/shell", callback_url=f"{server.base_url}/host"),
            ToolServer(name="files", server_url=f"{server.base_url}/files", callback_url=f"{server.base_url}/host"),
            ToolServer(name="search", server_url=f"{server.base_url}/search"),
            ToolServer(name="db", server_url=f"{server.base_url}/db", callback_url=f"{server.base_url}/db-host"),
        ]
        headers = {"shell": {"X-Key": "shell-secret"}, "db": {"X-Key": "db-secret"}}
        callbacks = RolloutCallbacks(client, tools, headers=headers, job_id="ftjob-1", open_rollouts=book)
        yield Host(endpoint, callbacks, attempts, book)


class Book:
    """The open rollouts, in memory."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.ended: dict[str, Grade | Failure] = {}
        self.untold: set[str] = set()

    def begin(self, trace_id: str) -> None:
        self.open.add(trace_id)

    def end(self, trace_id: str, outcome: Grade | Failure) -> None:
        self.ended[trace_id] = outcome

    def close(self, trace_id: str, *, is_over: bool) -> None:
        if is_over:
            self.open.discard(trace_id)
        else:
            self.untold.add(trace_id)


class Host:
    def __init__(
        self, endpoint: HostEndpoint, callbacks: RolloutCallbacks, attempts: list[Attempt], book: Book
    ) -> None:
        self.endpoint, self.callbacks, self.attempts, self.book = endpoint, callbacks, attempts, book

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(call.body) | {"path": call.path} for call in self.endpoint.calls]


async def test_every_callback_url_is_told_once_with_the_names_of_its_tools() -> None:
    async with host() as it:
        assert it.callbacks.has_hosts
        assert await it.callbacks.started(item=ITEM, trace_id="trace_1") is None
        it.callbacks.ended(trace_id="trace_1", outcome=GRADE)
        await asyncio.wait_for(it.endpoint.until(lambda endpoint: len(endpoint.calls) == 4), timeout=PATIENCE_S)
        await it.callbacks.aclose()
        assert sorted(it.bodies[:2], key=lambda body: body["path"]) == [
            {
                "type": "rollout.started", "trace_id": "trace_1", "job_id": "ftjob-1", "item": ITEM, "tools": tools,
                "path": path,
            }
            for path, tools in (("/db-host", ["db"]), ("/host", ["shell", "files"]))
        ]  # fmt: skip
        ended = {
            "type": "rollout.ended", "trace_id": "trace_1", "job_id": "ftjob-1", "outcome": "graded", "reward": 0.25,
            "failure_code": None,
        }  # fmt: skip
        assert sorted(it.bodies[2:4], key=lambda body: body["path"]) == [
            ended | {"path": path, "tools": tools}
            for path, tools in (("/db-host", ["db"]), ("/host", ["shell", "files"]))
        ]


async def test_callbacks_are_signed_idempotent_and_carry_the_tools_headers() -> None:
    async with host() as it:
        await it.callbacks.started(item=ITEM, trace_id="trace_1")
        for call in it.endpoint.calls:
            Webhook(SECRET).verify(call.body, dict(call.headers))
        assert {call.path: call.headers["x-key"] for call in it.endpoint.calls} == {
            "/host": "shell-secret",
            "/db-host": "db-secret",
        }
        assert {(attempt.stage, attempt.endpoint, attempt.call_id) for attempt in it.attempts} == {
            (Stage.TOOL, "shell", "rollout.started.shell"),
            (Stage.TOOL, "db", "rollout.started.db"),
        }


async def test_hosts_are_told_under_keys_of_their_own_as_one_server_may_take_none_twice() -> None:
    async with host() as it:
        await it.callbacks.started(item=ITEM, trace_id="trace_1")
        await it.callbacks.tell_end(trace_id="trace_1", outcome=GRADE)
        keys = [call.headers["idempotency-key"] for call in it.endpoint.calls]
        assert {call.headers["webhook-id"] for call in it.endpoint.calls} == {*keys}
        assert sorted(keys) == [
            f"trace_1/rollout.{kind}.{tool}" for kind in ("ended", "started") for tool in ("db", "shell")
        ]


async def test_a_beginning_that_fails_after_all_retries_is_the_endpoints_failure() -> None:
    async with host(Script(rollout_started=Fault(FaultKind.STATUS, status=503, body=b"no machine"))) as it:
        failure = await it.callbacks.started(item=ITEM, trace_id="trace_1")
        assert failure is not None
        assert (failure.stage, failure.code, failure.endpoint) == (Stage.TOOL, FailureCode.SERVER_ERROR, "shell")
        assert failure.attempts == 4
        assert "no machine" in failure.message


async def test_a_beginning_that_is_refused_is_not_tried_again() -> None:
    async with host(Script(rollout_started=Fault(FaultKind.STATUS, status=409))) as it:
        failure = await it.callbacks.started(item=ITEM, trace_id="trace_1")
        assert failure is not None
        assert (failure.code, failure.status, failure.attempts) == (FailureCode.REJECTED, 409, 1)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (None, ("cancelled", None, None)),
        (Failure(stage=Stage.GRADER, code=FailureCode.TIMEOUT, message=""), ("failed", None, "timeout")),
        (Grade(reward=0.0, grader="g"), ("graded", 0.0, None)),
    ],
)
async def test_each_outcome_has_its_words(
    outcome: Grade | Failure | None, told: tuple[str, float | None, str | None]
) -> None:
    async with host() as it:
        it.callbacks.ended(trace_id="trace_1", outcome=outcome)
        await it.callbacks.aclose()
        assert it.bodies
        assert {(body["outcome"], body["reward"], body["failure_code"]) for body in it.bodies} == {told}


async def test_closing_tells_what_was_not_told_yet() -> None:
    async with host() as it:
        for number in range(20):
            it.callbacks.ended(trace_id=f"trace_{number}", outcome=None)
        await it.callbacks.aclose()
        told = {(body["trace_id"], body["path"]) for body in it.bodies}
        assert told == {(f"trace_{number}", path) for number in range(20) for path in ("/host", "/db-host")}


async def test_closing_in_a_hurry_waits_only_seconds_for_a_host_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rft.egress.drain_pending.DRAIN_S", 0.05)
    assert DRAIN_S < 10.0
    async with host(Script(rollout_ended=Fault(FaultKind.HANG))) as it:
        hurry = asyncio.Event()
        await it.callbacks.started(item=ITEM, trace_id="trace_1")
        it.callbacks.ended(trace_id="trace_1", outcome=GRADE)
        closing = asyncio.create_task(it.callbacks.aclose(hurry))
        await asyncio.wait_for(it.endpoint.until(lambda endpoint: endpoint.in_flight == 2), timeout=PATIENCE_S)
        assert not closing.done()
        hurry.set()
        await asyncio.wait_for(closing, timeout=PATIENCE_S)
        assert it.book.open == {"trace_1"}, "a successor may still tell it"


async def test_closing_in_peace_waits_for_a_host_that_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rft.egress.drain_pending.DRAIN_S", 0.0)
    async with host(takes_s=0.3) as it:
        for number in range(20):
            it.callbacks.ended(trace_id=f"trace_{number}", outcome=GRADE)
        await it.callbacks.aclose()
        assert len({body["trace_id"] for body in it.bodies}) == 20
        assert it.book.open == set()
        assert it.endpoint.in_flight == 0


async def test_the_book_knows_whose_end_was_not_told() -> None:
    async with host() as it:
        for number in range(3):
            await it.callbacks.started(item=ITEM, trace_id=f"trace_{number}")
        it.callbacks.ended(trace_id="trace_1", outcome=GRADE)
        await it.callbacks.aclose()
        assert it.book.open == {"trace_0", "trace_2"}


async def test_without_callback_urls_there_is_nobody_to_tell() -> None:
    async with EndpointClient.open(retry=BUDGET) as client:
        callbacks = RolloutCallbacks(client, [ToolServer(name="search", server_url="http://127.0.0.1:9/x")])
        assert not callbacks.has_hosts
        assert await callbacks.started(item=ITEM, trace_id="trace_1") is None
        callbacks.ended(trace_id="trace_1", outcome=GRADE)
        await callbacks.aclose()


@pytest.mark.parametrize("path", ["/host", "/shell", "/grade"])
async def test_calls_grades_and_ends_do_not_wait_behind_beginnings_that_wait_for_them(path: str) -> None:
    endpoint = MachineHost(machines=2)
    settings = EgressSettings(max_calls_in_flight=4)
    async with LoopbackEndpoint(endpoint) as server, EndpointClient.open(settings) as client:
        tool = ToolServer(name="shell", server_url=f"{server.base_url}/shell", callback_url=f"{server.base_url}{path}")
        callbacks = RolloutCallbacks(client, [tool], job_id="ftjob-1")
        gateway = HttpToolGateway(client, [tool], job_id="ftjob-1")
        grader = Endpoint("g", Stage.GRADER, f"{server.base_url}/grade")
        call = ToolCall(call_id="call_1", name="shell", arguments="{}")
        schemas = [ToolSchema(name="shell", parameters={})]

        async def roll_out(trace_id: str) -> Failure | None:
            failure = await callbacks.started(item=ITEM, trace_id=trace_id)
            result = await gateway.call(call, tools=schemas, item=ITEM, trace_id=trace_id)
            await client.post_json(grader, {"type": "grade"}, trace_id=trace_id, call_id="grade", read=bool)
            callbacks.ended(trace_id=trace_id, outcome=GRADE)
            return result if isinstance(result, Failure) else failure

        rollouts = asyncio.gather(*(roll_out(f"trace_{number}") for number in range(32)))
        assert await asyncio.wait_for(rollouts, timeout=PATIENCE_S) == [None] * 32
        await callbacks.aclose()
        assert len(endpoint.calls) == 128
        assert endpoint.most_posts[path] <= (8 if path == "/host" else 12)


@pytest.mark.parametrize("path", ["/host", "/shell"])
async def test_a_server_that_is_down_when_rollouts_begin_is_told_of(path: str) -> None:
    told: list[BreakerState] = []
    limits = Limits.adaptive(64, on_change=lambda change: told.append(change.state))
    base_url = f"http://127.0.0.1:{free_port()}"
    tool = ToolServer(name="shell", server_url=f"{base_url}/shell", callback_url=f"{base_url}{path}")
    async with EndpointClient.open(retry=BUDGET, limits=limits) as client:
        callbacks = RolloutCallbacks(client, [tool], job_id="ftjob-1")
        beginnings = [
            asyncio.create_task(callbacks.started(item=ITEM, trace_id=f"trace_{number}")) for number in range(32)
        ]
        await until(lambda: bool(told), "the outage is told")
        assert told == [BreakerState.OPEN]
        for task in beginnings:
            task.cancel()
        await asyncio.gather(*beginnings, return_exceptions=True)
        await callbacks.aclose()


async def test_beginnings_stay_within_the_cap_of_a_tool_that_nobody_has_called_yet_at_their_address() -> None:
    endpoint = HostEndpoint()
    endpoint.takes_s = 0.01
    async with LoopbackEndpoint(endpoint) as server, EndpointClient.open() as client:
        url = f"{server.base_url}/shell"
        tools = [
            ToolServer(name="shell", server_url=url, callback_url=url, max_concurrency=2, rate_limit=500.0),
            ToolServer(name="files", server_url=f"{url}?files", max_concurrency=1),
        ]
        callbacks = RolloutCallbacks(client, tools, job_id="ftjob-1")
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(callbacks.started(trace_id=f"trace_{number}", item=ITEM))
        assert (len(endpoint.calls), endpoint.max_in_flight) == (8, 1)
        await callbacks.aclose()


async def test_ends_stay_within_the_cap_of_a_tool_that_is_called_at_their_address() -> None:
    endpoint = HostEndpoint()
    endpoint.takes_s = 0.01
    async with LoopbackEndpoint(endpoint) as server, EndpointClient.open() as client:
        url = f"{server.base_url}/shell"
        tool = ToolServer(name="shell", server_url=url, callback_url=url, max_concurrency=1)
        gateway = HttpToolGateway(client, [tool], job_id="ftjob-1")
        callbacks = RolloutCallbacks(client, [tool], job_id="ftjob-1")
        call = ToolCall(call_id="call_1", name="shell", arguments="{}")
        await gateway.call(call, tools=[ToolSchema(name="shell", parameters={})], item=ITEM, trace_id="trace_0")
        for number in range(8):
            callbacks.ended(trace_id=f"trace_{number}", outcome=GRADE)
        await callbacks.aclose()
        assert sum(b"rollout.ended" in call.body for call in endpoint.calls) == 8
        assert endpoint.max_in_flight == 1


@pytest.mark.parametrize(
    ("status", "is_left"), [(503, True), (429, True), (401, True), (409, False), (404, False), (302, False)]
)
async def test_an_end_is_left_to_the_next_process_where_the_host_may_take_it_then(status: int, is_left: bool) -> None:
    async with host(Script(rollout_ended=Fault(FaultKind.STATUS, status=status))) as it:
        await it.callbacks.started(item=ITEM, trace_id="trace_1")
        it.callbacks.ended(trace_id="trace_1", outcome=GRADE)
        await it.callbacks.aclose()
        assert it.book.untold == ({"trace_1"} if is_left else set())
        assert it.book.ended == {"trace_1": GRADE}
        assert it.book.open == ({"trace_1"} if is_left else set())


@pytest.mark.parametrize(
    ("is_there", "status", "tries"),
    [(True, 500, 1), (True, 429, 4), (False, 500, 0)],
    ids=["it may have arrived", "come later", "surely not sent"],
)
async def test_an_end_that_an_unsafe_host_may_have_had_is_told_no_more(is_there: bool, status: int, tries: int) -> None:
    endpoint = HostEndpoint(faults=Script(rollout_ended=Fault(FaultKind.STATUS, status=status)))
    book = Book()
    async with LoopbackEndpoint(endpoint) as server, EndpointClient.open(retry=BUDGET) as client:
        url = f"{server.base_url}/shell" if is_there else f"http://127.0.0.1:{free_port()}/shell"
        tool = ToolServer(name="shell", server_url=url, callback_url=url, retry="unsafe")
        callbacks = RolloutCallbacks(client, [tool], job_id="ftjob-1", open_rollouts=book)
        book.begin("trace_1")
        callbacks.ended(trace_id="trace_1", outcome=GRADE)
        await callbacks.aclose()
        assert book.open == (set() if status == 500 and is_there else {"trace_1"})
        assert len(endpoint.calls) == tries


async def test_what_earlier_processes_left_is_told_a_few_at_once_and_left_again_at_the_end() -> None:
    async with host(takes_s=0.2) as it:
        for number in range(100):
            it.book.begin(f"left_{number:02}")
            it.callbacks.was_left_open(trace_id=f"left_{number:02}", outcome=GRADE)
        await asyncio.wait_for(it.endpoint.until(lambda endpoint: len(endpoint.calls) >= 60), timeout=PATIENCE_S)
        assert it.endpoint.in_flight <= 2 * 32
        await it.callbacks.aclose()
        told = {body["trace_id"] for body in it.bodies}
        assert 30 <= len(told) < 100
        assert it.book.open == {f"left_{number:02}" for number in range(100)} - told
        assert {body["outcome"] for body in it.bodies} == {"graded"}
