"""`job.py` orders one job, and goes on watching it across whatever happens to the platform."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.finqa_mini.running import EXAMPLE

FILE = {"id": "file-1", "object": "file", "status": "processed", "filename": "x", "purpose": "fine-tune"}
JOB = {
    "id": "ftjob-1",
    "object": "fine_tuning.job",
    "model": "starter",
    "fine_tuned_model": "ft:starter",
    "error": None,
}


class Platform:
    """Answers as far as the script asks; `is_broken` decides over each request by its path and how often it came."""

    def __init__(self) -> None:
        self.orders = list[str | None]()
        self.bodies = list[Any]()
        self.is_broken: Callable[[str, int], bool] = lambda path, times: False
        self._paths = list[str]()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, key: str | None) -> tuple[int, dict[str, Any]]:
        """Status and body of one request."""
        if method == "POST" and path.endswith("/jobs"):
            self.orders.append(key)
        self._paths.append(path)
        if self.is_broken(path, self._paths.count(path)):
            return 503, {"error": {"message": "starting"}}
        if "/events" in path:
            event = {"id": "e1", "object": "fine_tuning.job.event", "message": "step 1: reward 0.5", "level": "info"}
            return 200, {"object": "list", "data": [event], "has_more": False}
        return 200, FILE if "/files" in path else {**JOB, "status": "succeeded" if "ftjob" in path else "queued"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        platform = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.path.endswith("/jobs"):
                    platform.bodies.append(json.loads(body))
                status, reply = platform.answer(self.command, self.path, self.headers.get("Idempotency-Key"))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Not into the test's output."""

        return Handler


@pytest.fixture
def platform() -> Iterator[Platform]:
    served = Platform()
    yield served
    served.close()


def run(platform: Platform, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    for name in ("train", "valid"):
        (folder / f"{name}.jsonl").write_text("{}\n")
    command = [sys.executable, str(EXAMPLE / "job.py"), "--data", str(folder), "--poll", "0.01", *arguments]
    environment = {"OPENAI_BASE_URL": platform.base_url, "OPENAI_API_KEY": "rft_x"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_an_order_whose_answer_got_lost_is_sent_again_with_the_same_key(platform: Platform, tmp_path: Path) -> None:
    platform.is_broken = lambda path, times: path.endswith("/jobs") and times == 1
    done = run(platform, tmp_path, "--server", "http://127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    first, again = platform.orders
    assert first == again
    assert first


def test_a_platform_that_starts_again_is_waited_for(platform: Platform, tmp_path: Path) -> None:
    platform.is_broken = lambda path, times: (
        path.endswith("/ftjob-1") and times <= 4
    )  # The SDK itself asks three times.
    done = run(platform, tmp_path, "--job", "ftjob-1")
    assert done.returncode == 0, done.stderr
    assert "asked again" in done.stderr
    assert "step 1: reward 0.5" in done.stdout
    assert platform.orders == []


@pytest.mark.parametrize(("arguments", "deadline"), [((), None), (("--timeout", "3"), 3.0)])
def test_a_call_may_be_given_less_time(
    platform: Platform, tmp_path: Path, arguments: tuple[str, ...], deadline: float | None
) -> None:
    done = run(platform, tmp_path, "--server", "http://127.0.0.1:1", *arguments)
    assert done.returncode == 0, done.stderr
    (order,) = platform.bodies
    wanted = order["method"]["reinforcement"]
    assert [called.get("timeout_s") for called in (*wanted["tools"], wanted["grader"])] == [deadline] * 4
