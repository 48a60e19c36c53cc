"""A customer's tools and grader with scripted answers, and faults on demand. An ASGI application.

For a real socket, and for faults that break the connection itself, see `rft.testing.loopback`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.gateway_service.hang_up import unless_gone
from rft.testing.faults import TRANSPORT_FAULTS, Fault, FaultKind, FaultPlan, HttpAnswer, NoFaults, ReceivedCall, render

TOOL_PATH = "/tool"
GRADER_PATH = "/grade"
DRIP_S = 0.05

Tool: TypeAlias = Callable[[JsonObject, JsonObject], str]
"""From arguments and dataset row to an output."""
Score: TypeAlias = Callable[[JsonObject, JsonObject], JsonValue]
"""From sample and dataset row to a score."""

_Scope: TypeAlias = dict[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
_Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


class ScriptedTools:
    """Tools by name. An exception of a tool is a soft error, told to the model with status 200."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = dict(tools)

    def answer(self, call: JsonObject) -> HttpAnswer:
        """The reply to one function call."""
        tool = self._tools.get(str(call["name"]))
        if tool is None:
            return HttpAnswer(404, json.dumps({"error": f"no tool {call['name']}"}).encode())
        arguments, item = json.loads(str(call["arguments"])), call.get("item")
        try:
            output = tool(arguments, item if isinstance(item, dict) else {})
        except Exception as error:
            output = f"Error: {error}"
        reply = {"type": "function_call_output", "call_id": call["call_id"], "id": call["id"], "output": output}
        return HttpAnswer(200, json.dumps(reply).encode())


class ScriptedGrader:
    """A grader that answers what `score` says, or always the same number."""

    def __init__(self, score: Score | float) -> None:
        self._score = score

    def answer(self, call: JsonObject) -> HttpAnswer:
        """The reply to one grading request."""
        sample, item = call["sample"], call["item"]
        assert isinstance(sample, dict)
        assert isinstance(item, dict)
        score = self._score(sample, item) if callable(self._score) else self._score
        return HttpAnswer(200, json.dumps({"score": score}).encode())


class ScriptedEndpoint:
    """Tools under `/tool`, a grader under `/grade`; counts what it receives.

    `latency_s` is how long an answer takes: a number, or a function of the calls in flight (an endpoint under load).
    """

    def __init__(
        self,
        tools: ScriptedTools | None = None,
        grader: ScriptedGrader | None = None,
        *,
        faults: FaultPlan | None = None,
        latency_s: float | Callable[[int], float] = 0.0,
    ) -> None:
        self.tools, self.grader = tools or ScriptedTools({}), grader or ScriptedGrader(0.5)
        self.faults: FaultPlan = faults or NoFaults()
        self.latency_s = latency_s
        self.calls: list[ReceivedCall] = []
        self.in_flight = 0
        self.max_in_flight = 0
        """Most calls that were ever inside at once."""
        self.most_posts: Counter[str] = Counter()
        """By path; without what has no body, such as probes."""
        self._posts: Counter[str] = Counter()
        self._watchers: list[asyncio.Future[None]] = []

    def begin(
        self, path: str, headers: Mapping[str, str], body: bytes, *, method: str = "POST", query: str = ""
    ) -> ReceivedCall:
        """Count a call in. Each `begin` needs one `end`."""
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        call = ReceivedCall(path, headers, body, asyncio.get_running_loop().time(), self.in_flight, method, query)
        self.calls.append(call)
        if body:
            self._posts[path] += 1
            self.most_posts[path] = max(self.most_posts[path], self._posts[path])
        self._announce()
        return call

    def end(self, call: ReceivedCall) -> None:
        """Count a call out."""
        self.in_flight -= 1
        if call.body:
            self._posts[call.path] -= 1
        self._announce()

    async def until(self, condition: "Callable[[ScriptedEndpoint], bool]") -> None:
        """Wait for the counts to fulfil a condition, e.g. `lambda endpoint: len(endpoint.calls) == 2`."""
        while not condition(self):
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(change)
            await change

    def _announce(self) -> None:
        watchers, self._watchers = self._watchers, []
        for change in watchers:
            if not change.done():
                change.set_result(None)

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """The call's reply, or the fault that takes its place, after the endpoint's latency."""
        fault = self.faults.next(call)
        delay_s = self.latency_s(call.in_flight) if callable(self.latency_s) else self.latency_s
        if delay_s:
            await asyncio.sleep(delay_s)
        if fault is not None:
            return fault
        if not call.body:
            return HttpAnswer(405, b'{"error": "POST only"}')
        if call.path.startswith(TOOL_PATH):
            return self.tools.answer(json.loads(call.body))
        if call.path.startswith(GRADER_PATH):
            return self.grader.answer(json.loads(call.body))
        return HttpAnswer(404, b'{"error": "nothing here"}')

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """ASGI entry. Transport faults raise ConnectionAbortedError: the server decides what becomes of those."""
        if scope["type"] != "http":
            raise ValueError(f"this endpoint speaks HTTP only, not {scope['type']}")
        body, is_more = b"", True
        while is_more:
            message = await receive()
            body, is_more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope.get("query_string", b"").decode("latin-1")
        call = self.begin(scope["path"], headers, body, method=scope["method"], query=query)
        try:
            answer = await self.answer(call)
            sending = self._send(answer, send)
            # A fault may have no end, and servers let one send into the void when its caller has hung up.
            await (unless_gone(receive, sending) if isinstance(answer, Fault) else sending)
        finally:
            self.end(call)

    async def _send(self, answer: HttpAnswer | Fault, send: _Send) -> None:
        if isinstance(answer, Fault):
            if answer.kind in TRANSPORT_FAULTS:
                raise ConnectionAbortedError(answer.kind)
            if answer.kind is FaultKind.HANG:
                await asyncio.Event().wait()
            is_dripping = answer.kind is FaultKind.SLOW_DRIP
            answer = HttpAnswer(200, b"") if is_dripping else render(answer)
        else:
            is_dripping = False
        raw = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        while is_dripping:
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(DRIP_S)
        await send({"type": "http.response.body", "body": answer.body})
