"""The scripted endpoint under an ASGI server: a call ends at the latest when its caller hangs up."""

import asyncio
from typing import Any

import pytest

from rft.testing.endpoint import GRADER_PATH, ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, FaultSequence

SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "path": GRADER_PATH, "headers": []}


class Caller:
    """Sends a call, and reads until it hangs up; what is sent to it after that is lost in silence, as by uvicorn."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = [{"type": "http.request", "body": b'{"sample": {}, "item": {}}'}]
        self.is_gone, self.has_read = asyncio.Event(), asyncio.Event()
        self.read: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self._told:
            return self._told.pop()
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if not self.is_gone.is_set():
            self.read.append(message)
            self.has_read.set()


@pytest.mark.parametrize("kind", [FaultKind.HANG, FaultKind.SLOW_DRIP])
async def test_a_fault_without_an_end_ends_with_its_caller(kind: FaultKind) -> None:
    endpoint, caller = ScriptedEndpoint(faults=FaultSequence([Fault(kind)])), Caller()
    call = asyncio.create_task(endpoint(SCOPE, caller.receive, caller.send))
    await endpoint.until(lambda it: it.in_flight == 1)
    if kind is FaultKind.SLOW_DRIP:
        await caller.has_read.wait()
    caller.is_gone.set()
    await call
    assert endpoint.in_flight == 0


async def test_a_fault_that_breaks_the_connection_is_the_servers_to_make() -> None:
    endpoint, caller = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.RESET_BEFORE_HEADERS)])), Caller()
    with pytest.raises(ConnectionAbortedError):
        await endpoint(SCOPE, caller.receive, caller.send)
    assert endpoint.in_flight == 0


async def test_an_answer_is_sent_whole() -> None:
    endpoint, caller = ScriptedEndpoint(), Caller()
    await endpoint(SCOPE, caller.receive, caller.send)
    assert [message["type"] for message in caller.read] == ["http.response.start", "http.response.body"]
