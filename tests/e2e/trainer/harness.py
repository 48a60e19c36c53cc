"""A run directory, a customer's server in this process, and the trainer as its own process."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import ascii_lowercase
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from rft.core.events import EventLine
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import LoraSpec, ResolvedHyperparameters
from rft.core.spec import Budgets, RetryBudget, RunSecrets, RunSpec, ToolServer
from rft.run_directory import layout
from tests.e2e.trainer.trainer_process import ForkedProcess, TrainerProcess, start_process

Score = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Received:
    """One POST as the customer's server saw it."""

    path: str
    query: str
    headers: dict[str, str]
    """By lower-case name."""
    body: dict[str, Any]
    is_answered: bool
    """False when it was turned away."""

    @property
    def trace_id(self) -> str:
        return self.body["trace_id"]


@dataclass(frozen=True, slots=True)
class Broken:
    """What takes an answer's place; nothing at all when there is no body."""

    status: int = 200
    body: bytes | None = None


class Server(ThreadingHTTPServer):
    """Knows from whom something may still come."""

    request_queue_size = 512
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connections: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.connections.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A trainer killed in the middle of a call is part of these tests."""


class Customer:
    """Answers tool calls with the query in capitals, and grades by a function of the last turn's text."""

    def __init__(self) -> None:
        self.score: Score = letter_share
        self.received: list[Received] = []
        self.is_down: Callable[[str], bool] = lambda path: False
        self.fault: Callable[[str, dict[str, Any]], Broken | None] = lambda path, body: None
        """By path and body of a call."""
        self.has_route: Callable[[str], bool] = lambda path: True
        self.tool_key: str | None = None
        """What tool calls must carry as `X-Key`; None: nothing."""
        customer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                path, _, query = self.path.partition("?")
                is_down = customer.is_down(path)
                customer.received.append(Received(path, query, headers, body, not is_down))
                broken = customer.refusal(path, headers) or customer.fault(path, body)
                if broken is not None:
                    self.break_off(broken)
                    return
                self.answer(503, {"error": "down"}) if is_down else self.answer(200, customer.reply(path, body))

            def do_GET(self) -> None:
                self.answer(503 if customer.is_down(self.path.partition("?")[0]) else 405, {"error": "POST only"})

            def break_off(self, broken: Broken) -> None:
                if broken.body is None:
                    self.close_connection = True
                else:
                    self.send(broken.status, broken.body)

            def answer(self, status: int, body: dict[str, Any]) -> None:
                self.send(status, json.dumps(body).encode())

            def send(self, status: int, reply: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def refusal(self, path: str, headers: dict[str, str]) -> Broken | None:
        """What a framework says before the customer's code is reached."""
        if not self.has_route(path):
            return Broken(404, b'{"detail": "Not Found"}')
        if path == "/tool" and self.tool_key is not None and headers.get("x-key") != self.tool_key:
            return Broken(401, b'{"detail": "token expired"}')
        return None

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/grade":
            return {"score": self.score(body["sample"]["output_text"] or "")}
        if path == "/host":
            return {}
        return {"output": json.loads(body["arguments"])["query"].upper()}

    def hear_the_last_of(self, gone: "Trainer") -> None:
        """Until everything that a trainer said before it was killed is received."""
        gone.process.wait()
        # Connections are taken in their order: once this one is, all of the trainer's are.
        with socket.create_connection(("127.0.0.1", self.server.server_address[1])) as own:
            own.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert own.recv(1)
        deadline = time.monotonic() + 60
        while self.server.connections:
            assert time.monotonic() < deadline, "a connection of a dead process stays open"
            time.sleep(0.005)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def letter_share(text: str) -> float:
    """Share of small letters in a text."""
    return sum(character in ascii_lowercase for character in text) / len(text) if text else 0.0


def row(number: int) -> str:
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tool = {"type": "function", "function": {"name": "search", "parameters": parameters}}
    return json.dumps({"messages": [{"role": "user", "content": f"Question {number}?"}], "tools": [tool]})


def write_run(
    run_dir: Path,
    base_model: Path,
    url: str,
    *,
    steps: int = 3,
    group_size: int = 4,
    engine: str = "rft.testing.samplers:fake_engine",
    learning_rate: float = 2e-3,
    max_tokens: int = 64,
    valid_rows: int = 3,
    retry: RetryBudget | None = None,
    **changes: Any,
) -> Path:
    """A run directory as the platform writes it; `changes` are further fields of the specification."""
    run_dir.mkdir(parents=True)
    spec = RunSpec(
        job_id="ftjob-test",
        seed=7,
        base_model=str(base_model),
        model_name="tiny",
        hyperparameters=ResolvedHyperparameters(
            n_epochs=1, batch_size=2, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=2,
            eval_samples=1, group_size=group_size, steps=steps,
        ),
        tools=(ToolServer(name="search", server_url=f"{url}/tool", header_names=("X-Key",)),),
        grader=EndpointGrader(name="letters", url=f"{url}/grade"),
        budgets=Budgets(max_tool_calls=3, max_tokens=max_tokens),
        retry=retry or RetryBudget(),
        lora=LoraSpec(rank=4, alpha=8, learning_rate=learning_rate),
        engine=engine,
        torch_threads=1,
        max_importance_gap=1e3,  # Fakes make their log-probabilities up.
    ).model_copy(update=changes)  # fmt: skip
    (run_dir / layout.SPEC).write_text(spec.model_dump_json())
    (run_dir / layout.TRAIN_ROWS).write_text("\n".join(row(i) for i in range(5)))
    if valid_rows:
        (run_dir / layout.VALID_ROWS).write_text("\n".join(row(100 + i) for i in range(valid_rows)))
    return run_dir


@dataclass(slots=True)
class Trainer:
    """One trainer process over a run directory."""

    run_dir: Path
    process: TrainerProcess

    @classmethod
    def start(cls, run_dir: Path, secrets: RunSecrets | None = None) -> "Trainer":
        """A fork of a process that has imported everything."""
        return cls(run_dir, ForkedProcess(run_dir, secrets))

    @classmethod
    def start_anew(
        cls, run_dir: Path, secrets: RunSecrets | None = None, environment: Mapping[str, str] | None = None
    ) -> "Trainer":
        """As the platform starts it: nothing is imported yet. `environment`: what is added to ours."""
        return cls(run_dir, start_process(run_dir, secrets, environment))

    def wait(self, timeout_s: float = 400) -> int:
        return self.process.wait(timeout_s)

    def wait_for_events(self, count: int, timeout_s: float = 400) -> None:
        """Until the log has that many whole lines, or the process is gone."""
        deadline = time.monotonic() + timeout_s
        path = self.run_dir / layout.EVENTS
        while self.process.poll() is None and time.monotonic() < deadline:
            if path.exists() and path.read_bytes().count(b"\n") >= count:
                return
            time.sleep(0.005)

    def wait_for(self, kind: str, timeout_s: float = 400) -> None:
        """Until the log has an event of that kind. Raises AssertionError when the process goes first."""
        deadline = time.monotonic() + timeout_s
        path = self.run_dir / layout.EVENTS
        while not (path.exists() and f'"type":"{kind}"'.encode() in path.read_bytes()):
            assert self.process.poll() is None, (self.run_dir / layout.LOG).read_text()[-2000:]
            assert time.monotonic() < deadline, f"no {kind} in time"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def events(run_dir: Path) -> list[EventLine]:
    """All whole lines: whoever still writes the log may be in the middle of one."""
    whole, _, _ = (run_dir / layout.EVENTS).read_bytes().rpartition(b"\n")
    return [EventLine.model_validate_json(line) for line in whole.splitlines()]


def adapter_bytes(run_dir: Path, step: int) -> bytes:
    return (run_dir / layout.checkpoint_dir(step) / "adapter_model.safetensors").read_bytes()
