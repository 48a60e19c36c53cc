"""`rft files ...` and how commands fail."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rft.platform.embedded.connection import Connection, publish
from tests.integration.cli.conftest import Shell
from tests.integration.worker.workbench import ROW, jsonl
from tests.shared.waiting import PATIENCE_S

UPLOAD_AND_MEASURE = """
import resource, sys
from rft.platform.cli.app import app
import rft.platform.cli.session, rft.platform.cli.transfer
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
app(["files", "upload", sys.argv[1], "--purpose", "user_data", "--json"], standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, file=sys.stderr)
"""


@pytest.fixture
def rows(shell: Shell) -> str:
    """A dataset of three rows."""
    return shell.put('my "rows".jsonl', jsonl(*({**ROW, "n": number} for number in range(3))))


async def test_a_file_goes_up_is_shown_comes_down_and_goes_away(shell: Shell, rows: str) -> None:
    uploaded = (await shell.ok("files", "upload", rows, "--expires-after", 3600, "--json")).json
    assert (uploaded["object"], uploaded["filename"], uploaded["dataset"]["rows"]) == ("file", rows, 3)
    assert uploaded["expires_at"] == uploaded["created_at"] + 3600
    shown = (await shell.ok("files", "get", uploaded["id"])).out
    assert uploaded["id"] in shown
    assert "tools described  search" in shown
    listed = (await shell.ok("files", "list", "--purpose", "fine-tune")).out
    assert uploaded["id"] in listed
    assert "processed" in listed
    done = await shell.ok("files", "download", uploaded["id"], "-o", "copy.jsonl")
    assert "wrote copy.jsonl" in done.err
    assert shell.content("copy.jsonl") == shell.content(rows)
    assert (await shell.ok("files", "download", uploaded["id"], "-o", "-")).out == shell.content(rows).decode()
    assert (await shell.ok("files", "delete", uploaded["id"])).out == f"{uploaded['id']} is deleted\n"
    assert (await shell.ok("files", "list")).err == "no files\n"


async def test_every_bad_line_is_shown(shell: Shell, rows: str) -> None:
    bad = shell.put("bad.jsonl", b"".join(b"{oops\n" for _ in range(130)))
    file_id = (await shell.ok("files", "upload", bad, "--json")).json["id"]
    told = (await shell.ok("files", "problems", file_id, "--limit", 125, "--json")).json
    assert [problem["line"] for problem in told] == list(range(1, 126))
    assert "not JSON" in (await shell.ok("files", "problems", file_id, "--after", "line-129")).out
    good = (await shell.ok("files", "upload", rows, "--json")).json["id"]
    assert (await shell.ok("files", "problems", good)).err == "no problems\n"


async def test_a_download_overwrites_nothing_unless_told_to(shell: Shell, rows: str) -> None:
    file_id = (await shell.ok("files", "upload", rows, "--json")).json["id"]
    refused = await shell.rft("files", "download", file_id)
    assert refused.status == 1
    assert "--force" in refused.err
    content = shell.content(rows)
    shell.put(rows, b"changed")
    await shell.ok("files", "download", file_id, "--force")
    assert shell.content(rows) == content
    assert not list(shell.folder.glob(".*.part"))


async def test_a_device_is_written_to_and_a_link_followed(shell: Shell, rows: str, tmp_path: Path) -> None:
    file_id = (await shell.ok("files", "upload", rows, "--json")).json["id"]
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    reading = asyncio.to_thread(pipe.read_bytes)
    _, content = await asyncio.gather(shell.ok("files", "download", file_id, "-o", pipe), reading)
    assert (content.count(b"\n"), pipe.is_fifo()) == (3, True)
    link.symlink_to(tmp_path / "there")
    await shell.ok("files", "download", file_id, "-o", link)
    assert link.is_symlink()
    assert (tmp_path / "there").read_bytes() == content


async def test_problems_of_a_dataset_are_told(shell: Shell, rows: str) -> None:
    shell.put(rows, b"[]\n")
    done = await shell.ok("files", "upload", rows)
    assert "unusable: 1 problem" in done.out
    assert "line 1: a row must be a JSON object" in done.out


async def test_a_long_list_is_told_to_go_on(shell: Shell, rows: str) -> None:
    ids = [(await shell.ok("files", "upload", rows, "--json")).json["id"] for _ in range(3)]
    first = await shell.ok("files", "list", "--limit", 2)
    assert f"--after {ids[1]}" in first.err
    rest = (await shell.ok("files", "list", "--after", ids[1], "--json")).json
    assert [file["id"] for file in rest] == ids[:1]


async def test_an_upload_does_not_pass_through_memory(shell: Shell, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(192 << 20)
    command = [sys.executable, "-c", UPLOAD_AND_MEASURE, str(large)]
    done = await asyncio.to_thread(
        subprocess.run, command, env=shell.environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["bytes"] == 192 << 20
    assert int(done.stderr) < 64 << 10, "kilobytes"


async def test_the_envelope_becomes_one_line(shell: Shell) -> None:
    missing = await shell.rft("files", "get", "file-nowhere/../x", "--json")
    assert (missing.status, missing.json["error"]["code"]) == (1, "unknown_url")
    assert missing.err.startswith("rft: ")
    assert missing.err.count("\n") == 1
    wrong = await shell.rft("files", "list", "--after", "file-nowhere")
    assert "param: after" in wrong.err


async def test_a_wrong_key_is_told_before_the_bytes(shell: Shell, rows: str) -> None:
    done = await shell.rft("files", "upload", rows, "--api-key", "wrong")
    assert done.status == 1
    assert "API key" in done.err


async def test_a_wrong_key_is_told_with_what_to_do(shell: Shell) -> None:
    done = await shell.rft("jobs", "list", RFT_API_KEY="rft_wrong")
    assert "Incorrect API key" in done.err
    assert "rft keys create" in done.err


async def test_nobody_there_is_told_with_what_to_do(shell: Shell) -> None:
    refused = await shell.rft("jobs", "list", "--base-url", "http://127.0.0.1:1/v1")
    assert refused.status == 1
    assert "nobody answers at http://127.0.0.1:1/v1: start the platform with `rft up`" in refused.err
    unnamed = await shell.rft("jobs", "list", RFT_BASE_URL="")
    assert unnamed.status == 1
    assert "no platform to talk to" in unnamed.err


async def test_a_server_that_is_no_api_is_told(shell: Shell) -> None:
    done = await shell.rft("jobs", "list", "--base-url", shell.environment["RFT_BASE_URL"].removesuffix("v1") + "docs")
    assert done.status == 1
    assert done.err.count("\n") == 1


async def test_the_sdks_variables_serve_too(shell: Shell) -> None:
    named = shell.environment
    sdk = {"OPENAI_BASE_URL": named["RFT_BASE_URL"], "OPENAI_API_KEY": named["RFT_API_KEY"]}
    assert (await shell.rft("jobs", "list", RFT_BASE_URL="", RFT_API_KEY="", **sdk)).err == "no jobs\n"


async def test_the_embedded_platform_is_found_by_its_record(shell: Shell) -> None:
    named = shell.environment
    home = Path(named["RFT_HOME"])
    await asyncio.to_thread(home.mkdir)
    record = Connection(
        base_url=named["RFT_BASE_URL"], api_key=named["RFT_API_KEY"], dashboard_url="http://127.0.0.1/", pid=1
    )
    publish(home, record)
    assert (await shell.rft("jobs", "list", RFT_BASE_URL="", RFT_API_KEY="")).err == "no jobs\n"


@pytest.mark.parametrize(
    "command", [["files", "list", "--json"], ["files", "list"], ["files", "download", "FILE", "-o", "-"]]
)
async def test_a_reader_that_goes_away_is_no_drama(shell: Shell, command: list[str]) -> None:
    file_id = (
        await shell.ok("files", "upload", shell.put("x.txt", b"x" * (1 << 20)), "--purpose", "user_data", "--json")
    ).json["id"]
    reading, writing = os.pipe()
    os.close(reading)
    started = shell.start(
        *(file_id if part == "FILE" else part for part in command), stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    _, err = await asyncio.to_thread(started.communicate, timeout=PATIENCE_S)
    assert (started.returncode, err) == (1, "")
