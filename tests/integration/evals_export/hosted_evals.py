"""A stand-in of the hosted Evals API on a real socket: it pages, throttles, breaks half-way, and forgets evals."""

import json
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET
from urllib.parse import parse_qs, urlsplit

KEY = "sk-proj-Ab12Cd34Ef56Gh78Ij90"
FILE_BYTES = bytes(range(256)) * 40


@dataclass
class Trouble:
    """What happens to one request instead of, or to, its answer."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    is_reset: bool = False
    is_cut: bool = False
    """The announced length is not reached."""
    is_cut_json: bool = False
    """A whole answer of HTTP with half a JSON in it."""


def evaluation(number: int) -> str:
    """As the service might spell it: its own spacing, numbers and fields that no client knows."""
    return (
        f'{{\n  "object": "eval", "id": "eval_{number}",\n  "name": "caf\\u00e9 {number}", '
        f'"created_at": 17000000{number:02d},'
        f'\n  "a_field_of_tomorrow": {{"exact": 1.0, "large": 12345678901234567890, "tiny": 1e-400}},'
        f'\n  "data_source_config": {{"type": "custom", "schema": {{}}}}, "testing_criteria": []\n}}'
    )


def run(eval_number: int, number: int) -> str:
    """A run over a file."""
    source = {"type": "jsonl", "source": {"type": "file_id", "id": f"file-{eval_number}rows"}}
    return json.dumps(
        {
            "id": f"evalrun_{eval_number}_{number}",
            "object": "eval.run",
            "eval_id": f"eval_{eval_number}",
            "status": "completed",
            "data_source": source,
            "result_counts": {"total": 7, "passed": 3, "failed": 4, "errored": 0},
        },
        indent=2,
    )


def item(run_id: str, number: int) -> str:
    """An output item; every third one names an image."""
    image = {"type": "input_image", "file_id": "file-image"} if number % 3 == 0 else {"file_id": "invoice 12"}
    return (
        f'{{"id": "outputitem_{run_id}_{number:03d}", "object": "eval.run.output_item", "datasource_item": '
        f'{json.dumps(image)},\r\n "results": '
        f'[{{"name": "f1-{number}", "score": 0.10, "passed": false, "new": null}}]}}'
    )


class HostedEvals:
    """The service and what it holds; `trouble` decides over each request by its path and how often it came."""

    def __init__(self, evals: int = 3, runs: int = 3, items: int = 7) -> None:
        self.evals = {f"eval_{number}": evaluation(number) for number in range(evals)}
        self.runs = {
            f"eval_{e}": {f"evalrun_{e}_{number}": run(e, number) for number in range(runs)} for e in range(evals)
        }
        self.items = {
            run_id: {json.loads(text)["id"]: text for text in (item(run_id, number) for number in range(items))}
            for runs_of in self.runs.values()
            for run_id in runs_of
        }
        self.files = {f"file-{number}rows": FILE_BYTES for number in range(evals)} | {"file-image": b"\x89PNG" * 9}
        self.refused_files = set[str]()
        self.trouble: Callable[[str, int], Trouble | None] = lambda path, times: None
        self.before: Callable[[str], None] = lambda path: None
        self.requests = list[str]()
        self.most_at_once = 0
        self._at_once, self._lock = 0, threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def base_url(self) -> str:
        """For the SDK."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "HostedEvals":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def delete_eval(self, eval_id: str) -> None:
        """As its owner does, at any moment."""
        self.evals.pop(eval_id, None)
        for run_id in self.runs.pop(eval_id, {}):
            self.items.pop(run_id, None)

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Status and body."""
        match path.strip("/").split("/")[1:]:
            case ["evals"]:
                return page(self.evals, query)
            case ["evals", eval_id, "runs"] if eval_id in self.evals:
                return page(self.runs[eval_id], query)
            case ["evals", eval_id, "runs", run_id, "output_items"] if run_id in self.runs.get(eval_id, {}):
                return page(self.items[run_id], query)
            case ["files", file_id, "content"] if file_id in self.files:
                if file_id in self.refused_files:
                    return error(400, "Not allowed to download files of purpose: user_data")
                return 200, self.files[file_id]
            case ["files", file_id] if file_id in self.files:
                about = {"id": file_id, "object": "file", "bytes": len(self.files[file_id]), "filename": "rows.jsonl"}
                return 200, json.dumps(about).encode()
            case _:
                return error(404, f"No such object: {path}")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # Head and body are written apart: the second would wait for 40 ms.

            def do_GET(self) -> None:
                service.serve(self)

            def log_message(self, format: str, *args: object) -> None:
                """Not into the test's output."""

        return Handler

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """One request."""
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.requests.append(handler.path)
            times = self.requests.count(handler.path)
            self.before(handler.path)
            status, body = self.answer(parts.path, query)
        if handler.headers.get("Authorization") != f"Bearer {KEY}":
            status, body = error(401, f"Incorrect API key provided: {KEY}")
        try:
            self._reply(handler, status, body, self.trouble(handler.path, times) or Trouble())
        finally:
            with self._lock:
                self._at_once -= 1

    def _reply(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, trouble: Trouble) -> None:
        if trouble.is_reset:
            handler.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            handler.connection.close()
            return
        if trouble.status:
            status, body = error(trouble.status, "A trouble of ours.")
        if trouble.is_cut_json:
            body = body[: len(body) // 2]
        handler.send_response(status)
        for name, value in trouble.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2] if trouble.is_cut else body)
        handler.wfile.flush()
        handler.close_connection = trouble.is_cut


def error(status: int, message: str) -> tuple[int, bytes]:
    """In the contract's shape."""
    return status, json.dumps({"error": {"message": message, "type": "x", "param": None, "code": None}}).encode()


def page(objects: dict[str, str], query: dict[str, str]) -> tuple[int, bytes]:
    """What stands behind `after`, in ascending order."""
    ids, after, limit = list(objects), query.get("after"), int(query.get("limit", "20"))
    if after is not None and after not in objects:
        return error(400, f"after: no object {after}")
    start = ids.index(after) + 1 if after is not None else 0
    chosen = ids[start : start + limit]
    has_more = "true" if start + limit < len(ids) else "false"
    last = f'"{chosen[-1]}"' if chosen else "null"
    data = ",\n".join(objects[name] for name in chosen)
    text = f'{{"object": "list", "data": [{data}],\n "first_id": null, "last_id": {last}, "has_more": {has_more}}}'
    return 200, text.encode()
