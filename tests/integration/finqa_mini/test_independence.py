"""The example is a customer's code: nothing of ours in it."""

import ast
import sys
from pathlib import Path

import pytest

from tests.integration.finqa_mini.running import EXAMPLE

SIBLINGS = {path.stem for path in EXAMPLE.glob("*.py")}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} runs as a script: no relative imports"
            assert node.module is not None
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


def test_the_job_script_needs_the_sdk_alone() -> None:
    assert imported(EXAMPLE / "job.py") == {"openai"}


def test_the_generator_needs_nothing() -> None:
    assert imported(EXAMPLE / "generate.py") == {"corpus"}
    assert imported(EXAMPLE / "corpus.py") == set()


@pytest.mark.parametrize("path", sorted(EXAMPLE.glob("*.py")), ids=lambda path: path.name)
def test_nothing_of_ours(path: Path) -> None:
    assert imported(path) <= {"fastapi", "starlette", "pydantic", "uvicorn", "openai"} | SIBLINGS
