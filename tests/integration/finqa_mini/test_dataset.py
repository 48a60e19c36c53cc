"""The example's generator: rows that the platform takes, the same for the same seed, without leakage."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rft.core.dataset import DatasetRow, parse_rows
from tests.integration.finqa_mini.running import EXAMPLE, RunningServer


def generate(folder: Path, seed: int, *options: str) -> Path:
    command = [sys.executable, EXAMPLE / "generate.py", "--out", folder, "--seed", str(seed), *options]
    subprocess.run(command, check=True)
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("data") / "new" / "folder", seed=1)


def test_every_row_is_a_valid_row(data: Path) -> None:
    for name, count in (("train.jsonl", 400), ("valid.jsonl", 200), ("test.jsonl", 200)):
        parsed = list(parse_rows((data / name).read_bytes().splitlines()))
        assert len(parsed) == count
        for row in parsed:
            assert isinstance(row, DatasetRow), row
            assert [tool.name for tool in row.tools] == ["search", "list", "cat"]
            assert set(row.item) == {"messages", "tools", "company", "year", "metric", "answer"}


def test_same_seed_same_bytes(data: Path, tmp_path: Path) -> None:
    again, other = generate(tmp_path / "again", seed=1), generate(tmp_path / "other", seed=2)
    for name in ("train.jsonl", "valid.jsonl", "test.jsonl"):
        assert (again / name).read_bytes() == (data / name).read_bytes()
        assert (other / name).read_bytes() != (data / name).read_bytes()


def test_a_model_that_is_not_the_starter_can_be_told_what_the_grader_reads(
    data: Path, tmp_path: Path, server: RunningServer
) -> None:
    told = rows(generate(tmp_path, 1, "--instruct") / "train.jsonl")
    for row, plain in zip(told, rows(data / "train.jsonl"), strict=True):
        instructions, *rest = row["messages"]
        assert row | {"messages": rest} == plain
        assert instructions["role"] == "developer"
        example = re.search(r"Answer: \w+: (\d+)", instructions["content"])
        assert example is not None
        assert server.score(example[0], float(example[1])) == 1.0


def test_each_file_asks_about_companies_that_no_other_names(data: Path, corpus: ModuleType) -> None:
    split = corpus.companies()
    for name, companies in (("train", split.training), ("valid", split.validation), ("test", split.test)):
        asked = rows(data / f"{name}.jsonl")
        assert {row["company"] for row in asked} <= set(companies)
        assert len({row["messages"][0]["content"] for row in asked}) == len(asked)


def test_the_answer_is_found_by_searching_and_reading(data: Path, server: RunningServer) -> None:
    for row in [row for name in ("train", "valid", "test") for row in rows(data / f"{name}.jsonl")[:20]]:
        folder = f"{row['company']}/{row['year']}/"
        hits = server.tool("search", f"{row['company']} {row['year']}").split("\n")
        (path,) = (hit for hit in hits if hit.startswith(folder))
        assert f"{row['metric']}: {row['answer']}" in server.tool("cat", path).split("\n")
        assert server.score(f"Answer: {row['metric']}: {row['answer']}", row["answer"]) == 1.0
        assert path.removeprefix(folder) not in row["messages"][0]["content"].split()
