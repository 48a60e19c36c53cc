"""Servers that say nothing: told for what they are, and watched by the kernel while a call waits."""

import asyncio
from pathlib import Path

import pytest

from rft.core.failure import FailureCode
from rft.egress.client import HttpClient
from rft.egress.endpoint import to_header_list
from rft.egress.reply import AttemptFailure
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint

HEADERS = to_header_list({})
SOCKETS = Path("/proc/net/tcp")


async def test_a_server_that_accepts_connections_and_says_nothing_is_told_as_a_timeout() -> None:
    endpoint = ScriptedEndpoint()
    async with LoopbackEndpoint(endpoint) as server, HttpClient(connect_timeout_s=0.2) as client:
        url = server.tool_url.replace("http:", "https:")  # The handshake waits for an answer that never comes.
        failure = await client.post(url, b"{}", headers=HEADERS, timeout_s=60.0)
    assert isinstance(failure, AttemptFailure)
    assert (failure.code, failure.surely_not_sent) == (FailureCode.CONNECT_ERROR, True)
    assert failure.message == "could not be reached (timed out)"


def timers_of_connections_to(port: int) -> list[tuple[str, float]]:
    """Kind and seconds left of each of this machine's connections to a port of its own."""
    connections = [line.split() for line in SOCKETS.read_text().splitlines()]
    timers = [fields[5].split(":") for fields in connections if fields[2] == f"0100007F:{port:04X}"]
    return [(kind, int(hundredths, 16) / 100) for kind, hundredths in timers]


@pytest.mark.skipif(not SOCKETS.exists(), reason="only Linux shows a socket's timers")
async def test_while_a_call_waits_the_kernel_asks_whether_anybody_is_there() -> None:
    endpoint = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.HANG)]))
    async with LoopbackEndpoint(endpoint) as server, HttpClient() as client:
        call = asyncio.create_task(client.post(server.tool_url, b"{}", headers=HEADERS, timeout_s=60.0))
        await endpoint.until(lambda seen: len(seen.calls) == 1)
        ((kind, left_s),) = timers_of_connections_to(server.port)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    assert kind == "02", "a keep-alive timer"
    assert left_s <= 30.0
