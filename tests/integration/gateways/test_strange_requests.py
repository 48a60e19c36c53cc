"""Requests that no trainer sends: bodies that cannot be read, and names that are not the service's."""

import http.client
import json
from collections.abc import Callable

import pytest
from fastapi import FastAPI

from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway.app import create_app as create_grader_gateway
from rft.tool_gateway.app import create_app as create_tool_gateway
from tests.integration.gateways.conftest import Town
from tests.shared.running_service import RunningService

SERVICES = pytest.mark.parametrize(
    ("create_app", "call"), [(create_tool_gateway, "calls"), (create_grader_gateway, "grades")]
)
Create = Callable[[ServiceSettings], FastAPI]


def ask(
    service: RunningService, method: str, path: str, body: bytes = b"", host: str | None = None
) -> tuple[int, bytes]:
    """Status and body, with any `Host` header."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    connection.request(method, path, body, {} if host is None else {"Host": host})
    reply = connection.getresponse()
    read = reply.status, reply.read()
    connection.close()
    return read


@SERVICES
@pytest.mark.parametrize("depth", [1_500, 100_000])
def test_deep_json_is_refused_in_the_contracts_shape(create_app: Create, call: str, depth: int) -> None:
    with RunningService(create_app(ServiceSettings())) as service:
        for body in (
            b"[" * depth,
            b'{"a":' * depth + b"1" + b"}" * depth,
            b'{"item":' + b"[" * depth + b"]" * depth + b"}",
        ):
            status, refusal = ask(service, "PUT", "/v1/jobs/ftjob-1", body)
            error = json.loads(refusal)["error"]
            assert (status, error["code"], error["type"]) == (400, "invalid_json", "invalid_request_error")
            assert error.keys() == {"message", "type", "param", "code"}


async def test_deep_json_of_a_registered_jobs_call_is_refused_too(town: Town) -> None:
    service = town.run(town.service())
    await (await town.trainer(service.url)).call()
    for path in ("calls", "rollouts/started", "rollouts/ended"):
        reply = await town.ask("POST", f"{service.url}/v1/jobs/ftjob-1/{path}", b"[" * 100_000)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "invalid_json")
    assert (await (await town.trainer(service.url)).call(2)).output == "hi"


async def test_what_is_no_json_is_refused_without_repeating_it(town: Town) -> None:
    service = town.run(town.service())
    reply = await town.ask("PUT", f"{service.url}/v1/jobs/ftjob-1", b'{"secrets": {"judge_api_key": "sesame-open"')
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "invalid_json")
    assert b"delimiter" in reply.body
    assert b"sesame" not in reply.body


@SERVICES
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8788", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.5", "", "["],
)
def test_a_service_without_a_token_is_not_asked_under_another_name(create_app: Create, call: str, host: str) -> None:
    with RunningService(create_app(ServiceSettings())) as service:
        for method, path in (("GET", "/health"), ("PUT", "/v1/jobs/a"), ("POST", f"/v1/jobs/a/{call}")):
            status, refusal = ask(service, method, path, b"{}", host)
            assert (status, json.loads(refusal)["error"]["code"]) == (403, "unknown_host")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8788", "localhost.", "127.0.0.1:1", "127.8.9.1", "[::1]:8788", "rft.lan:80"]
)
def test_it_is_asked_under_its_own_names(host: str) -> None:
    with RunningService(create_tool_gateway(ServiceSettings(allowed_hosts=("RFT.lan",)))) as service:
        assert ask(service, "GET", "/health", host=host)[0] == 200


async def test_with_a_token_the_name_says_nothing(town: Town) -> None:
    service = town.run(town.service())
    assert ask(service, "GET", "/health", host="rft.example.com")[0] == 200
    assert ask(service, "PUT", "/v1/jobs/a", host="rft.example.com")[0] == 401


@SERVICES
def test_a_small_request_that_is_refused_leaves_its_connection_open(create_app: Create, call: str) -> None:
    """Closed over unread bytes it would be reset, and the refusal might be lost."""
    with RunningService(create_app(ServiceSettings())) as service:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        connection.connect()
        first = connection.sock
        for _ in range(3):
            connection.request("POST", f"/v1/jobs/a/{call}", b"{}", {"Host": "evil.example"})
            reply = connection.getresponse()
            assert (reply.status, json.loads(reply.read())["error"]["code"]) == (403, "unknown_host")
            assert connection.sock is first
        connection.request("POST", f"/v1/jobs/a/{call}", b" " * 100_000, {"Host": "evil.example"})
        reply = connection.getresponse()
        assert (reply.status, reply.headers["connection"]) == (403, "close")
        reply.read()
        connection.close()
