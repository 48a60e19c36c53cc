"""A job of registered parts, under a key rotated while the platform runs: every call carries its secrets, signed."""

import json
import subprocess
import sys
from typing import Any

import pytest
from openai import OpenAI
from standardwebhooks import Webhook

from tests.e2e.platform.customer import CustomerServer, order, wait_for
from tests.shared.running_platform import PATIENCE_S, RunningPlatform, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


class VerifiedCalls(list[tuple[str, dict[str, str], bytes]]):
    """Each call is verified as it comes: a signature is good for five minutes."""

    def __init__(self, *keys: str) -> None:
        super().__init__()
        self._webhooks = [Webhook(key) for key in keys]

    def append(self, call: tuple[str, dict[str, str], bytes], /) -> None:
        """What it raises breaks the call off."""
        _, headers, raw = call
        for webhook in self._webhooks:
            webhook.verify(raw, headers)
        super().append(call)


def rft_secrets(platform: RunningPlatform, *arguments: str) -> list[str]:
    """The words of what `rft secrets ...` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "rft.platform.cli", "secrets", *arguments],
        env=environment(platform.home),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_calls_carry_registered_headers_and_both_signatures(
    platform: RunningPlatform, client: OpenAI, server: CustomerServer
) -> None:
    tool: Any = client.post(
        "/tools",
        body={
            "name": "search",
            "server_url": f"{server.url}/tool",
            "headers": {"X-Key": "tool-secret"},
            "description": "Echoes.",
            "parameters": PARAMETERS,
        },
        cast_to=object,
    )
    grader: Any = client.post(
        "/graders",
        body={"grader": {"type": "endpoint", "url": f"{server.url}/grade", "headers": {"X-Key": "grader-secret"}}},
        cast_to=object,
    )
    first = rft_secrets(platform, "show")[-1]
    second = rft_secrets(platform, "rotate")[-1]
    assert "new key" in " ".join(rft_secrets(platform, "rotate-key"))

    bare_rows = b"\n".join(
        json.dumps({"messages": [{"role": "user", "content": f"Question {number}?"}]}).encode() for number in range(2)
    )
    body = order(client, server, train=bare_rows, tools=[{"id": tool["id"]}])
    body["method"]["reinforcement"]["grader"] = {"id": grader["id"]}
    server.received = VerifiedCalls(first, second)
    job = client.fine_tuning.jobs.create(**body)
    assert wait_for(client, job.id).status == "succeeded"
    assert set(server.calls) == {"/tool", "/grade"}
    for path, headers, _ in server.received:
        assert headers["x-key"] == ("tool-secret" if path == "/tool" else "grader-secret")
    tried: Any = client.post(f"/tools/{tool['id']}/test", body={"arguments": {"query": "x"}}, cast_to=object)
    assert (tried["is_ok"], tried["output"]) == (True, "X")
    health: Any = client.get(f"/tools/{tool['id']}", cast_to=object)
    assert (health["health"]["status"], health["health"]["attempts"] > 0) == ("healthy", True)
