"""Starting the example server as its own process, as a customer runs it, and talking to it."""

import http.client
import importlib.util
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLE = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists()) / "examples" / "finqa_mini"


def load(name: str) -> ModuleType:
    """A module of the example under a name of its own: other examples have a `corpus` too."""
    spec = importlib.util.spec_from_file_location(f"finqa_mini_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class RunningServer:
    """A server process and a way to talk to it."""

    process: subprocess.Popen[bytes]
    port: int

    def post(self, path: str, body: object, timeout_s: float = 60) -> tuple[int, Any]:
        """Status and JSON of one request over a fresh connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            payload = response.read()
            is_json = response.headers.get_content_type() == "application/json"
            return response.status, json.loads(payload) if is_json else payload.decode()
        finally:
            connection.close()

    def tool(self, name: str, argument: str, *, path: str | None = None, trace_id: str = "trace_1") -> Any:
        """Output of a tool."""
        parameter = "query" if name == "search" else "path"
        call = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": name,
            "arguments": json.dumps({parameter: argument}),
            "trace_id": trace_id,
            "item": {"messages": []},
        }
        status, reply = self.post(path or f"/tools/{name}", call)
        assert status == 200
        assert reply == {
            "type": "function_call_output",
            "call_id": "call_1",
            "id": "fc_1",
            "output": reply["output"],
        }
        return reply["output"]

    def score(self, text: str | None, answer: float) -> float:
        """The grade of a final answer."""
        body = {"sample": {"output_text": text, "choices": []}, "item": {"answer": answer}, "trace_id": "trace_1"}
        status, reply = self.post("/grade", body)
        assert status == 200
        assert set(reply) == {"score"}
        return reply["score"]


def start(folder: Path, *arguments: str) -> RunningServer:
    """A server on a free port, accepting connections."""
    port_file = folder / "port"
    command = [sys.executable, EXAMPLE / "server.py", "--port", "0", "--port-file", port_file, *arguments]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 120
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise AssertionError("the example server did not start")
        time.sleep(0.02)
    return RunningServer(process, int(port_file.read_text()))
