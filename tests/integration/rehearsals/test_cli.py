"""`rft rehearse` on a job's order and its rows, with a customer on this machine."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rft.platform.cli.app import app
from rft.platform.settings import settings
from rft.testing.faults import Fault, FaultKind
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.rehearsals.stage import Customer, job, line


class Street(threading.Thread):
    """A customer in a thread of its own: the command has its own event loop."""

    def __init__(self, customer: Customer) -> None:
        super().__init__(daemon=True)
        self.customer, self.served = customer, LoopbackEndpoint(customer)
        self._is_open, self._close = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Serve until closed."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self.served:
            self._is_open.set()
            await self._close.wait()

    def open(self) -> LoopbackEndpoint:
        """Start, and wait for the port."""
        self.start()
        assert self._is_open.wait(30)
        return self.served

    def shut(self) -> None:
        """End, and wait for it."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._close.set)
        self.join(30)


class Switch:
    """Every tool call is refused while it is on."""

    is_on = False
    status = 500

    def __init__(self) -> None:
        self.queries: set[tuple[str, str]] = set()
        """By path, of all calls."""

    def next(self, call: Any) -> Fault | None:
        """A refusal, or none."""
        self.queries |= {(call.path, call.query)} if call.body else set()
        return Fault(FaultKind.STATUS, status=self.status) if self.is_on and call.path == "/tool" else None


@pytest.fixture
def switch() -> Switch:
    """Off."""
    return Switch()


@pytest.fixture
def customer(switch: Switch) -> Iterator[LoopbackEndpoint]:
    """The customer's tool and grader."""
    street = Street(Customer(faults=switch))
    yield street.open()
    street.shut()


@pytest.fixture
def folder(customer: LoopbackEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """`job.json` and `rows.jsonl`."""
    monkeypatch.setenv("RFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RFT_MAX_RETRIES", "0")
    settings.cache_clear()
    (tmp_path / "job.json").write_text(json.dumps({**job(customer), "training_file": "rows.jsonl"}))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line(number)) + "\n" for number in range(5)))
    yield tmp_path
    settings.cache_clear()


def rft(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["rehearse", *arguments])


def test_the_report_is_told_in_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rft.rollouts.rehearsal_advice._SLOW_MS", 1e9)  # However slow this machine is.
    result = rft(str(folder / "job.json"))
    assert result.exit_code == 0, result.output
    assert "tool search" in result.stdout
    assert "grader judge" in result.stdout
    assert "Ready: the step's burst of 16 rollouts" in " ".join(result.stdout.split())
    assert "A training step spends about" in result.stdout


def test_a_byte_order_mark_before_an_empty_line_does_no_harm(folder: Path) -> None:
    rows = folder / "rows.jsonl"
    rows.write_bytes(b"\xef\xbb\xbf\r\n" + rows.read_bytes())
    result = rft(str(folder / "job.json"), "--json", "--calls-per-rollout", "2", "--max-rollouts", "6")
    assert result.exit_code == 0, result.output


def test_the_report_is_told_as_json(folder: Path) -> None:
    result = rft(str(folder / "job.json"), "--json", "--calls-per-rollout", "2", "--max-rollouts", "6")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["rollouts"] == 6
    assert {endpoint["name"]: endpoint["calls"] for endpoint in report["endpoints"]} == {"search": 12, "judge": 6}


def test_fields_that_nobody_knows_are_warned_of(folder: Path) -> None:
    order = json.loads((folder / "job.json").read_text())
    order["method"]["reinforcement"]["tools"][0]["requests_a_minute"] = 50
    (folder / "job.json").write_text(json.dumps(order))
    result = rft(str(folder / "job.json"), "--json", "--max-rollouts", "2")
    assert result.exit_code == 0, result.output
    path = "method.reinforcement.tools[0].requests_a_minute"
    assert result.stderr == f"warning: these fields are not known here and have no effect: {path}\n"
    assert json.loads(result.stdout)["unknown_fields"] == [path]


def test_secrets_in_urls_are_sent_as_they_were_given(folder: Path, switch: Switch) -> None:
    order = json.loads((folder / "job.json").read_text())
    reinforcement = order["method"]["reinforcement"]
    reinforcement["tools"][0]["server_url"] += "?key=one"
    reinforcement["grader"]["url"] += "?key=two"
    (folder / "job.json").write_text(json.dumps(order))
    result = rft(str(folder / "job.json"))
    assert result.exit_code == 0, result.output
    assert switch.queries == {("/tool", "key=one"), ("/grade", "key=two")}
    assert "key" not in result.output


def test_rows_may_lie_elsewhere(folder: Path, tmp_path: Path, customer: LoopbackEndpoint) -> None:
    (folder / "job.json").write_text(json.dumps({**job(customer), "training_file": "file-of-the-platform"}))
    assert rft(str(folder / "job.json"), "--file", str(folder / "rows.jsonl"), "--json").exit_code == 0
    without = rft(str(folder / "job.json"))
    assert without.exit_code == 1
    assert "--file" in without.stderr


def test_failed_rollouts_are_an_exit_code(folder: Path, switch: Switch) -> None:
    switch.is_on = True
    result = rft(str(folder / "job.json"), "--max-rollouts", "4")
    assert result.exit_code == 1
    assert "answered 5xx in 100% of calls" in " ".join(result.stdout.split())


def test_a_tool_that_is_not_there_is_an_exit_code(folder: Path, switch: Switch) -> None:
    switch.is_on, switch.status = True, 404
    result = rft(str(folder / "job.json"), "--max-rollouts", "4")
    assert result.exit_code == 1, result.output
    assert "The tool search seems not to be there" in " ".join(result.stdout.split())
    report = json.loads(rft(str(folder / "job.json"), "--max-rollouts", "4", "--json").stdout)
    assert report["missing_tools"] == ["search"]
    switch.status = 400
    assert rft(str(folder / "job.json"), "--max-rollouts", "4").exit_code == 0, "the arguments were made up"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "JSON object"),
        ('{"training_file": "rows.jsonl"}', "Missing required parameter: 'method'"),
        ('{"training_file": "rows.jsonl", "method": {"type": "dpo"}}', "'method.type'"),
    ],
)
def test_a_bad_order_is_told_in_one_line(folder: Path, text: str, message: str) -> None:
    (folder / "job.json").write_text(text)
    result = rft(str(folder / "job.json"))
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("registered", "kind"),
    [({"tools": [{"id": "tool_1"}]}, "tool"), ({"grader": {"id": "grader_1"}}, "grader")],
)
def test_what_is_registered_is_known_to_the_platform_alone(folder: Path, registered: Any, kind: str) -> None:
    order = json.loads((folder / "job.json").read_text())
    order["method"]["reinforcement"] |= registered
    (folder / "job.json").write_text(json.dumps(order))
    result = rft(str(folder / "job.json"))
    assert result.exit_code == 1
    assert f"names a registered {kind} ({kind}_1)" in " ".join(result.stderr.split())
    assert "--remote" in result.stderr


def test_bad_rows_are_told_with_their_line(folder: Path) -> None:
    (folder / "rows.jsonl").write_text('{"messages": 3}\n')
    result = rft(str(folder / "job.json"))
    assert result.exit_code == 1
    assert "line 1 at messages" in result.stderr


def test_a_missing_order_is_told(folder: Path) -> None:
    result = rft(str(folder / "nowhere.json"))
    assert result.exit_code == 1
    assert "cannot be read" in result.stderr
