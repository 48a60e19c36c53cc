"""`rft validate` as it is called."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rft.platform.cli.app import app

ROW: dict[str, Any] = {
    "messages": [{"role": "user", "content": "How much?"}],
    "tools": [{"type": "function", "function": {"name": "search"}}],
}


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """A good file of two rows."""
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(json.dumps({**ROW, "n": n}) for n in range(2)))
    return path


def run(*arguments: object) -> tuple[int, str]:
    """Exit status and output."""
    result = CliRunner().invoke(app, ["validate", *map(str, arguments)])
    return result.exit_code, result.output


def test_a_good_file_is_ready(train: Path) -> None:
    status, said = run(train)
    assert status == 0
    assert said.splitlines()[0] == f"{train}: 2 rows, 0 problems; tools described: search"
    assert said.splitlines()[-1] == "ready for a job"


def test_every_bad_line_is_told(train: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("[]\n" * 50)
    status, said = run(train, "--validation", bad)
    assert status == 1
    assert sum("a row must be a JSON object" in line for line in said.splitlines()) == 50
    assert "  line 50: a row must be a JSON object, this is a list" in said
    assert said.splitlines()[-1] == "a job would refuse this"


def test_warnings_stop_nothing(train: Path) -> None:
    train.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW) + "\n")
    status, said = run(train, "--validation", train, "--context-tokens", 3)
    assert status == 0
    assert "1 rows repeat an earlier one (lines 2 = 1)" in said
    assert "2 rows look too long for the model's context (lines 1, 2)" in said
    assert "1 validation rows are training rows, too (lines 1 = 1)" in said


def test_programs_read_json(train: Path) -> None:
    status, said = run(train, "--validation", train, "--json")
    told = json.loads(said)
    assert (status, told["is_usable"], len(told["files"]), len(told["shared_rows"])) == (0, True, 2, 2)
    assert told["files"][0]["report"]["tools"] == {"search": 1}


def test_a_missing_file_is_no_traceback(tmp_path: Path) -> None:
    status, said = run(tmp_path / "nothing.jsonl")
    assert (status, "does not exist" in said) == (2, True)
