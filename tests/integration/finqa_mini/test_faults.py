"""Breaking on purpose: the same rollouts, in the same way, for good."""

import http.client
import json
import socket
import time
from collections import Counter
from itertools import count
from types import ModuleType

import pytest

from tests.integration.finqa_mini.running import RunningServer

SHARE = 0.3


def call(trace_id: str) -> dict[str, str]:
    return {"name": "list", "arguments": '{"path": "nobody"}', "call_id": "call_1", "trace_id": trace_id}


def grading(trace_id: str) -> dict[str, object]:
    return {"sample": {"output_text": ""}, "item": {"answer": 1}, "trace_id": trace_id}


def trace_of(faults: ModuleType, kind: str | None) -> str:
    chosen = faults.Faults(SHARE)
    return next(name for name in (f"trace_{n}" for n in count()) if chosen.kind(name) == kind)


def test_share_and_kinds(faults: ModuleType) -> None:
    chosen = faults.Faults(0.1)
    kinds = Counter(chosen.kind(f"trace_{n}") for n in range(20_000))
    assert set(kinds) == {None, "unavailable", "reset", "hang"}
    for kind in ("unavailable", "reset", "hang"):
        assert 0.9 < kinds[kind] / (20_000 * 0.1 / 3) < 1.1


def test_the_choice_hangs_on_the_trace_id_alone(faults: ModuleType) -> None:
    one, two = faults.Faults(SHARE), faults.Faults(SHARE)
    assert [one.kind(f"t{n}") for n in range(500)] == [two.kind(f"t{n}") for n in range(500)]
    assert {faults.Faults(0.0).kind(f"t{n}") for n in range(500)} == {None}
    assert None not in {faults.Faults(1.0).kind(f"t{n}") for n in range(500)}
    with pytest.raises(ValueError, match="between 0 and 1"):
        faults.Faults(1.5)


def test_other_rollouts_are_served(broken_server: RunningServer, faults: ModuleType) -> None:
    trace_id = trace_of(faults, None)
    assert broken_server.tool("list", "nobody", trace_id=trace_id) == "no such company"
    assert broken_server.post("/grade", grading(trace_id)) == (200, {"score": 0.0})


def test_unavailable_is_for_good_and_for_everything(broken_server: RunningServer, faults: ModuleType) -> None:
    trace_id = trace_of(faults, "unavailable")
    for _ in range(3):
        assert broken_server.post("/tools/list", call(trace_id))[0] == 503
        assert broken_server.post("/grade", grading(trace_id))[0] == 503


def test_reset_is_a_tcp_reset(broken_server: RunningServer, faults: ModuleType) -> None:
    trace_id = trace_of(faults, "reset")
    for _ in range(3):
        for path, body in (("/tools", call(trace_id)), ("/grade", grading(trace_id))):
            with pytest.raises(ConnectionResetError):
                broken_server.post(path, body)


def test_hang_lasts_until_the_caller_gives_up(broken_server: RunningServer, faults: ModuleType) -> None:
    trace_id = trace_of(faults, "hang")
    for path, body in (("/tools", call(trace_id)), ("/grade", grading(trace_id))):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            broken_server.post(path, body, timeout_s=0.5)
        assert time.monotonic() - began >= 0.5


def test_hanging_callers_keep_nobody_waiting(broken_server: RunningServer, faults: ModuleType) -> None:
    body = json.dumps(call(trace_of(faults, "hang"))).encode()
    head = b"POST /tools HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    hanging = [socket.create_connection(("127.0.0.1", broken_server.port)) for _ in range(50)]
    for connection in hanging:
        connection.sendall(head + body)
    assert broken_server.tool("list", "nobody", trace_id=trace_of(faults, None)) == "no such company"
    for connection in hanging:
        connection.close()


def test_a_reset_takes_no_other_connection_along(broken_server: RunningServer, faults: ModuleType) -> None:
    kept = http.client.HTTPConnection("127.0.0.1", broken_server.port, timeout=20)
    healthy = json.dumps(call(trace_of(faults, None)))
    for _ in range(2):
        kept.request("POST", "/tools", healthy, {"content-type": "application/json"})
        response = kept.getresponse()
        assert (response.status, json.loads(response.read())["output"]) == (200, "no such company")
        with pytest.raises(ConnectionResetError):
            broken_server.post("/tools", call(trace_of(faults, "reset")))
    kept.close()
