"""`examples/evals_export.py` takes everything out of the hosted service, whatever happens meanwhile."""

import ast
import errno
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from examples import evals_export

from tests.integration.evals_export.exports import SCRIPT, content, export, exported_by_hand, manifest, start
from tests.integration.evals_export.hosted_evals import FILE_BYTES, KEY, HostedEvals, Trouble


def test_it_needs_no_newer_python_than_the_one_of_a_mac() -> None:
    source = SCRIPT.read_text()
    ast.parse(source, feature_version=(3, 9))
    assert "from __future__ import annotations" in source  # `str | None` is no value there.
    assert "slots=" not in source


def test_everything_is_written_as_it_was_answered(hosted: HostedEvals, tmp_path: Path) -> None:
    code, shown = exported_by_hand(hosted, tmp_path / "out")
    got, told = content(tmp_path / "out"), manifest(tmp_path / "out")
    assert (code, told["is_complete"], hosted.most_at_once) == (0, True, 1), shown
    for eval_id, text in hosted.evals.items():
        assert got.pop(f"evals/{eval_id}.json") == text.replace("\n", " ").encode()
        for run_id, run_text in hosted.runs[eval_id].items():
            assert got.pop(f"runs/{run_id}.json") == run_text.replace("\n", " ").encode()
            lines = [line.replace("\r\n", "  ") for line in hosted.items[run_id].values()]
            assert got.pop(f"items/{run_id}.jsonl").decode().splitlines() == lines
    for file_id, inside in hosted.files.items():
        assert got.pop(f"files/{file_id}") == inside
        assert json.loads(got.pop(f"files/{file_id}.json"))["id"] == file_id
    assert list(got) == ["manifest.json"]
    assert told["counts"]["output_items"] == 63
    assert {name: told["counts"][name] for name in ("evals", "runs", "files")} == {"evals": 3, "runs": 9, "files": 4}
    for path, about in told["files"].items():
        inside = (tmp_path / "out" / path).read_bytes()
        assert (about["bytes"], about["sha256"]) == (len(inside), hashlib.sha256(inside).hexdigest())
    assert "63 output items" in shown


def test_a_second_start_fetches_only_what_lacks_or_is_damaged(hosted: HostedEvals, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export(hosted, folder)
    whole = content(folder)
    hosted.requests.clear()
    assert export(hosted, folder)[0] == 0
    assert content(folder) == whole
    assert not [path for path in hosted.requests if "output_items" in path or "files" in path]

    (folder / "items" / "evalrun_1_1.jsonl").write_bytes(whole["items/evalrun_1_1.jsonl"][:-9])
    (folder / "runs" / "evalrun_2_0.json").unlink()
    (folder / "files" / "file-0rows").write_bytes(FILE_BYTES[::-1])
    (folder / "evals" / "eval_0.json").write_bytes(b"{}")
    hosted.requests.clear()
    code, shown = export(hosted, folder)
    assert (code, content(folder)) == (0, whole)
    assert "4 files are not what was written" in shown
    asked = {
        path.split("?")[0].removeprefix("/v1/") for path in hosted.requests if "output_items" in path or "files" in path
    }
    assert asked == {"evals/eval_1/runs/evalrun_1_1/output_items", "files/file-0rows", "files/file-0rows/content"}


def test_throttling_and_broken_answers_change_nothing(hosted: HostedEvals, tmp_path: Path) -> None:
    export(hosted, tmp_path / "calm")
    kinds = [
        Trouble(429, {"Retry-After": "1"}),
        Trouble(503),
        Trouble(is_reset=True),
        Trouble(is_cut=True),
        Trouble(is_cut_json=True),
        Trouble(500),
    ]
    hosted.requests.clear()

    def trouble(path: str, times: int) -> Trouble | None:
        number = len(set(hosted.requests))
        return kinds[number % len(kinds)] if times == 1 and number % 3 == 0 else None

    hosted.trouble = trouble
    code, shown = export(hosted, tmp_path / "stormy")
    assert code == 0, shown
    assert content(tmp_path / "stormy") == content(tmp_path / "calm")
    assert len(hosted.requests) > len(set(hosted.requests)) + 10


def test_a_longer_wait_is_waited_for(hosted: HostedEvals, tmp_path: Path) -> None:
    asked = list[float]()

    def trouble(path: str, times: int) -> Trouble | None:
        if not path.startswith("/v1/evals?"):
            return None
        asked.append(time.monotonic())
        return Trouble(429, {"Retry-After": "2"}) if len(asked) == 1 else None

    hosted.trouble = trouble
    assert export(hosted, tmp_path / "out")[0] == 0
    assert asked[1] - asked[0] >= 2


@pytest.mark.slow
def test_killed_at_any_moment_the_next_start_ends_with_the_same_bytes(hosted: HostedEvals, tmp_path: Path) -> None:
    export(hosted, tmp_path / "calm")
    requests = len(hosted.requests)
    hosted.requests.clear()
    kills = 0
    while kills < 4:
        process = start(hosted, tmp_path / "killed")
        wanted = len(hosted.requests) + 1 + kills * 7 % 11
        while process.poll() is None and len(hosted.requests) < wanted:
            time.sleep(0.0005)
        time.sleep(0.002 * kills)
        process.send_signal(signal.SIGKILL)
        process.outcome(timeout=120)
        kills += 1
    assert export(hosted, tmp_path / "killed")[0] == 0
    assert content(tmp_path / "killed") == content(tmp_path / "calm")
    assert len(hosted.requests) < 2.2 * requests  # it went on instead of starting over


def test_going_on_asks_behind_the_last_page(tmp_path: Path) -> None:
    with HostedEvals(evals=1, runs=1, items=40) as hosted:
        hosted.trouble = lambda path, times: Trouble(401) if "outputitem_evalrun_0_0_019" in path else None
        assert export(hosted, tmp_path / "out")[0] == 3
        hosted.requests.clear()
        hosted.trouble = lambda path, times: None
        assert export(hosted, tmp_path / "out")[0] == 0
        pages = [path for path in hosted.requests if "output_items" in path]
        assert "after=outputitem_evalrun_0_0_019" in pages[0]
        assert len(pages) == 10


def test_an_eval_deleted_between_pages_is_recorded_and_the_rest_is_fetched(hosted: HostedEvals, tmp_path: Path) -> None:
    def before(path: str) -> None:
        if "evalrun_1_1/output_items" in path and "after=" in path:
            hosted.delete_eval("eval_1")

    hosted.before = before
    code, shown = export(hosted, tmp_path / "out")
    told = manifest(tmp_path / "out")
    assert (code, told["is_complete"]) == (0, True), shown
    assert sorted(told["gone"]) == ["evalrun_1_1", "evalrun_1_2"]
    assert "deleted" in shown
    assert (tmp_path / "out" / "evals" / "eval_1.json").exists()
    assert told["files"]["items/evalrun_1_1.jsonl"]["is_cut"]
    assert told["files"]["items/evalrun_1_1.jsonl"]["lines"] == 2
    assert len((tmp_path / "out" / "items" / "evalrun_1_1.jsonl").read_bytes().splitlines()) == 2
    assert {f"items/evalrun_{e}_{n}.jsonl" for e in (0, 2) for n in range(3)} <= told["files"].keys()
    whole = content(tmp_path / "out")
    assert export(hosted, tmp_path / "out")[0] == 0
    assert sorted(manifest(tmp_path / "out")["gone"]) == ["eval_1", "evalrun_1_1", "evalrun_1_2"]
    again = content(tmp_path / "out")
    assert again.pop("manifest.json") != whole.pop("manifest.json")
    assert again == whole


def test_an_eval_deleted_while_evals_are_listed_does_not_cut_the_list(hosted: HostedEvals, tmp_path: Path) -> None:
    def before(path: str) -> None:
        if path.startswith("/v1/evals?") and "after=eval_1" in path:
            hosted.delete_eval("eval_1")  # the very one that the cursor names

    hosted.before = before
    code, shown = export(hosted, tmp_path / "out")
    told = manifest(tmp_path / "out")
    assert code == 0, shown
    assert list(told["evals"]) == ["eval_0", "eval_1", "eval_2"]
    assert list(told["gone"]) == ["eval_1"]


def test_a_page_too_heavy_for_the_service_is_asked_for_in_parts(tmp_path: Path) -> None:
    with HostedEvals(evals=1, runs=1, items=5) as hosted:
        heavy = "output_items?limit=2&order=asc"
        hosted.trouble = lambda path, times: Trouble(500, {"Retry-After": "0"}) if path.endswith(heavy) else None
        code, shown = export(hosted, tmp_path / "out")
        assert code == 0, shown
        lines = (tmp_path / "out" / "items" / "evalrun_0_0.jsonl").read_bytes().splitlines()
        assert [json.loads(line)["id"][-3:] for line in lines] == ["000", "001", "002", "003", "004"]


def test_what_could_not_be_fetched_is_told_and_fetched_by_the_next_start(hosted: HostedEvals, tmp_path: Path) -> None:
    hosted.trouble = lambda path, times: Trouble(500, {"Retry-After": "0"}) if "evalrun_0_1/" in path else None
    code, shown = export(hosted, tmp_path / "out")
    assert code == 1
    assert "1 could not be fetched this time" in shown
    assert list(manifest(tmp_path / "out")["failed"]) == ["evalrun_0_1"]
    assert not manifest(tmp_path / "out")["is_complete"]
    hosted.trouble = lambda path, times: None
    hosted.requests.clear()
    assert export(hosted, tmp_path / "out")[0] == 0
    assert manifest(tmp_path / "out")["counts"]["output_items"] == 63
    assert hosted.requests[0].startswith("/v1/evals?limit=1&")  # Is the service still there?
    assert all("evalrun_0_1" in path for path in hosted.requests[1:])


def test_runs_that_the_service_cannot_answer_keep_nothing_else_back(tmp_path: Path) -> None:
    with HostedEvals(evals=2, runs=3) as hosted:
        hosted.trouble = lambda path, times: Trouble(500, {"Retry-After": "0"}) if "evalrun_0_" in path else None
        code, shown = export(hosted, tmp_path / "out", "--page-size", "100")
        told = manifest(tmp_path / "out")
        assert (code, sorted(told["failed"])) == (1, ["evalrun_0_0", "evalrun_0_1", "evalrun_0_2"]), shown
        assert {f"items/evalrun_1_{number}.jsonl" for number in range(3)} <= told["files"].keys()


@pytest.mark.parametrize("page_size", ["1", "100"])
def test_a_service_that_answers_nothing_is_told(hosted: HostedEvals, tmp_path: Path, page_size: str) -> None:
    hosted.trouble = lambda path, times: Trouble(500, {"Retry-After": "0"})
    code, shown = export(hosted, tmp_path / "out", "--page-size", page_size)
    assert (code, "does not answer" in shown, "Traceback" in shown) == (1, True, False)


def test_a_crowded_service_is_waited_for_longer_than_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, left = list[float](), [True] * 20
    monkeypatch.setattr(evals_export.time, "sleep", waits.append)
    reply: Any = httpx.Response(429, headers={"Retry-After": "1"}, request=httpx.Request("GET", "http://hosted"))

    def answer() -> str:
        if left:
            left.pop()
            raise openai.RateLimitError("slow down", response=reply, body=None)
        return "answered"

    service = evals_export.Service(openai.OpenAI(api_key=KEY), evals_export.Screen(KEY))
    assert service.ask("evals", answer) == "answered"
    assert waits == [1, 1, 2, 4, 8, 16, 32, *[60] * 13]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # The journal is open to the end.
def test_a_folder_whose_file_system_has_no_locks_is_written_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    folder = evals_export.Folder(tmp_path)
    folder.note(gone={"eval_1": "404"})
    assert folder.state.gone == {"eval_1": "404"}


def test_another_server_in_the_environment_is_not_taken_for_the_hosted_one(tmp_path: Path) -> None:
    environment = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:8787/v1"}
    command = [sys.executable, str(SCRIPT), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "OPENAI_BASE_URL names 127.0.0.1" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("said", ["", "https://eu.api.openai.com/v1"])
def test_an_address_of_the_hosted_service_in_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", said)
    monkeypatch.setattr(sys, "argv", ["evals_export.py", "my-evals"])
    assert evals_export.arguments().base_url == (said or "https://api.openai.com/v1")


def test_two_exports_do_not_share_a_folder(hosted: HostedEvals, tmp_path: Path) -> None:
    hosted.trouble = lambda path, times: Trouble(429, {"Retry-After": "30"})
    first = start(hosted, tmp_path / "out")
    while not hosted.requests:
        time.sleep(0.01)
    code, shown = export(hosted, tmp_path / "out")
    first.send_signal(signal.SIGKILL)
    assert first.outcome(timeout=120)[0] == -signal.SIGKILL
    assert (code, "Another export" in shown) == (2, True)
