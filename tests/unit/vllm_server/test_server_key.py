"""What our vLLM servers load: nobody is answered without the key."""

import importlib
import os
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from rft.vllm_server.command import ServerOptions, server_command, server_environment
from rft.vllm_server.server_side.rft_server_key import KeyMiddleware

OPTIONS = ServerOptions("/models/mine", 8000, is_cpu=True)
KEY = "the key"


class Visit:
    """Says what came of one call."""

    def __init__(self) -> None:
        self.passed_on: list[str] = []
        self.sent: list[MutableMapping[str, Any]] = []

    async def __call__(self, path: str, *headers: tuple[bytes, bytes], kind: str = "http", method: str = "GET") -> None:
        scope = {"type": kind, "path": path, "method": method, "headers": list(headers)}
        await KeyMiddleware(self._app)(scope, self._receive, self._send)

    async def _app(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        del receive, send
        self.passed_on.append(scope["path"])

    async def _receive(self) -> MutableMapping[str, Any]:
        raise AssertionError("nothing of a refused call is read")

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


def shown(value: bytes) -> tuple[bytes, bytes]:
    return b"authorization", value


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("VLLM_API_KEY", KEY)


@pytest.mark.parametrize("path", ["/adapters", "/adapters/x", "/invocations", "/metrics", "/health/", "/v1/models", ""])
@pytest.mark.parametrize("headers", [(), (shown(b"Bearer another"),), (shown(b"Basic the key"),), (shown(b"Bearer "),)])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_without_the_key_nothing_is_passed_on(
    path: str, headers: tuple[tuple[bytes, bytes], ...], method: str
) -> None:
    visit = Visit()
    await visit(path, *headers, method=method)
    assert visit.passed_on == []
    assert visit.sent[0]["status"] == 401


async def test_health_and_whoever_shows_the_key_are_passed_on() -> None:
    visit = Visit()
    await visit("/health")
    await visit("/metrics", shown(b"Bearer the key"))
    await visit("/adapters", shown(b"bearer the key"), method="POST")
    await visit("", kind="lifespan")
    assert visit.passed_on == ["/health", "/metrics", "/adapters", ""]
    assert visit.sent == []


async def test_a_conversation_without_the_key_is_closed_before_it_begins() -> None:
    visit = Visit()
    await visit("/health", kind="websocket")
    assert visit.passed_on == []
    assert visit.sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("key", [None, ""])
async def test_a_server_without_a_key_asks_for_none(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    if key is None:
        monkeypatch.delenv("VLLM_API_KEY")
    else:
        monkeypatch.setenv("VLLM_API_KEY", key)
    visit = Visit()
    await visit("/metrics")
    assert visit.passed_on == ["/metrics"]


def test_a_server_finds_it_and_nothing_else_of_ours(tmp_path: Path) -> None:
    command = server_command(Path(sys.executable), OPTIONS)
    module, name = command[command.index("--middleware") + 1].rsplit(".", 1)
    assert getattr(importlib.import_module(f"rft.vllm_server.server_side.{module}"), name) is KeyMiddleware
    environment = server_environment(OPTIONS, api_key=KEY, inherited=os.environ)
    tell = f"import {module}; print({module}.{name}.__name__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", tell],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == [name], done.stderr
    found = {path.name for path in Path(environment["PYTHONPATH"]).glob("*.py")}
    assert found == {"__init__.py", f"{module}.py", "rft_cpu_plugin.py"}
