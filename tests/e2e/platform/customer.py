"""A customer of the whole product: one small base model, rows, and an HTTP server with one manner per path."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from openai import OpenAI

TERMINAL = ("succeeded", "failed", "cancelled")
_PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def make_model(directory: Path) -> Path:
    """A tiny model with a chat template; what it says is up to the run's sampler, what it learns is not."""
    from rft.starter.tokenizer import build_tokenizer
    from tests.shared.by_hand import tiny_model

    tokenizer = build_tokenizer()
    tiny_model(tokenizer).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def row(number: int, tool: str = "search") -> str:
    """One line of a dataset."""
    described = {"type": "function", "function": {"name": tool, "parameters": _PARAMETERS}}
    return json.dumps({"messages": [{"role": "user", "content": f"Question {number}?"}], "tools": [described]})


def rows(count: int, first: int = 0) -> bytes:
    """A dataset."""
    return "\n".join(row(first + number) for number in range(count)).encode()


def letter_share(text: str) -> float:
    """Share of small letters: rewards that differ between rollouts and depend on nothing but the text."""
    return sum(character in ascii_lowercase for character in text) / len(text) if text else 0.0


class CustomerServer:
    """`/tool` echoes the query; `/grade` scores letters; `/grade/<manner>` misbehaves in that manner."""

    def __init__(self, port: int = 0) -> None:
        """`port`: 0 for any that is free."""
        self.calls: list[str] = []
        """Paths that were called, in order and without their queries; probes (GET) are not calls."""
        self.queries: list[str] = []
        """Of the same calls."""
        self.bodies: list[dict[str, Any]] = []
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        """Path, headers by lower-case name, and raw body of each call."""
        self.graded: dict[str, int] = {}
        """Grades asked for, by trace id."""
        self.delay_s = 0.0
        """How long every answer takes."""
        self.is_down = False
        """Every call is answered with 500."""
        self.tool_key: str | None = None
        """What calls of `/tool` must carry as `X-Key`; None: nothing."""
        self.turned_away: set[str] = set()
        """Trace ids of the calls that did not."""
        self.before_call: Callable[[str], None] = lambda path: None
        """What happens at each call, by its path, before it is looked at. What it raises breaks the connection off."""
        self.released = threading.Event()
        customer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, b"{}")

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(raw)
                headers = {name.lower(): value for name, value in self.headers.items()}
                path, _, query = self.path.partition("?")
                customer.before_call(path)
                customer.received.append((path, headers, raw))
                customer.calls.append(path)
                customer.queries.append(query)
                customer.bodies.append(body)
                if customer.delay_s:
                    time.sleep(customer.delay_s)
                if path == "/tool" and customer.tool_key not in (None, headers.get("x-key")):
                    customer.turned_away.add(body["trace_id"])
                    self._send(401, b'{"detail": "token expired"}')
                    return
                self._send(*customer.answer(path, body))

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        class Server(ThreadingHTTPServer):
            request_queue_size = 512
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Callers that are killed in the middle of a call are part of these tests."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of a reply."""
        if self.is_down:
            return 500, b"out of order"
        if path.startswith("/grade"):
            self.graded[body["trace_id"]] = self.graded.get(body["trace_id"], 0) + 1
        match path:
            case "/tool":
                return 200, json.dumps({"output": json.loads(body["arguments"])["query"].upper()}).encode()
            case "/grade":
                return 200, json.dumps({"score": letter_share(body["sample"]["output_text"])}).encode()
            case "/grade/nan":
                return 200, b'{"score": NaN}'
            case "/grade/401":
                return 401, b'{"error": "who are you?"}'
            case "/grade/hang":
                self.released.wait(120)
                return 503, b"{}"
            case _:
                return 404, b"{}"

    def close(self) -> None:
        """Stop serving."""
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def order(client: OpenAI, server: CustomerServer, **changes: Any) -> dict[str, Any]:
    """Arguments of `jobs.create`; `train`, `valid`: bytes to upload; `grader`: a path; `of_grader`: more of it."""
    train, valid = changes.pop("train", None) or rows(2), changes.pop("valid", None)
    reinforcement: dict[str, Any] = {
        "tools": changes.pop("tools", [{"name": "search", "server_url": f"{server.url}/tool"}]),
        "grader": {"type": "endpoint", "name": "letters", "url": server.url + changes.pop("grader", "/grade")}
        | changes.pop("of_grader", {}),
        "max_episode_steps": 2,
        "budgets": {"max_tokens": 64},
        "hyperparameters": {"n_epochs": 1, "batch_size": 2, "compute_multiplier": 0.25}
        | changes.pop("hyperparameters", {}),
    }
    files = {"training_file": client.files.create(file=("train.jsonl", train), purpose="fine-tune").id}
    if valid is not None:
        files["validation_file"] = client.files.create(file=("valid.jsonl", valid), purpose="fine-tune").id
    method = {"type": "reinforcement", "reinforcement": reinforcement}
    return {"model": "tiny", "method": method, "seed": 7, **files, **changes}


def launch(client: OpenAI, server: CustomerServer, **changes: Any) -> Any:
    """A new job; see `order`."""
    return client.fine_tuning.jobs.create(**order(client, server, **changes))


def rollouts_of(client: OpenAI, job_id: str) -> list[dict[str, Any]]:
    """Up to a thousand, measurements included."""
    page: Any = client.get(f"/fine_tuning/jobs/{job_id}/rollouts?limit=1000", cast_to=object)
    return page["data"]


def wait_for(client: OpenAI, job_id: str, statuses: tuple[str, ...] = TERMINAL, patience_s: float = 900) -> Any:
    """The job once it has one of these statuses."""
    deadline = time.monotonic() + patience_s
    while (job := client.fine_tuning.jobs.retrieve(job_id)).status not in statuses:
        assert time.monotonic() < deadline, f"{job_id} is still {job.status} after {patience_s} s"
        assert job.status not in TERMINAL, f"{job_id} is {job.status}: {job.error}"
        time.sleep(0.1)
    return job


def events_of(client: OpenAI, job_id: str) -> list[Any]:
    """All events, oldest first."""
    return list(client.fine_tuning.jobs.list_events(job_id, limit=100))[::-1]


def steps_of(client: OpenAI, job_id: str) -> list[dict[str, Any]]:
    """Records of all steps, oldest first."""
    page: Any = client.get(f"/fine_tuning/jobs/{job_id}/steps?limit=100", cast_to=object)
    return sorted((entry["record"] for entry in page["data"]), key=lambda record: record["step"])
