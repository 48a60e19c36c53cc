"""Where SQL may stand, and who alone may write a job's row and its status."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rft.platform.lifecycle import reconciler_repository, repository, run_repository

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
PLATFORM = ROOT / "platform" / "rft" / "platform"
STATEMENT = re.compile(
    r"\s*(select\s|insert\s+into\s|update\s+\S+\s+set\b|delete\s+from\s|with\s+\w+\s+as\s*\(|copy\s+\w+\s*\(|create\s+"
    r"(table|index|database|unique)\b|alter\s+(table|index)\b|drop\s+(table|index)\b|truncate\s|listen\s+\w+$"
    r"|notify\s+\w+$|update\s+$)"
)
WRITES_JOBS = re.compile(r"\b(update|insert\s+into|delete\s+from|truncate|copy)\s+jobs\b")


class Text(NamedTuple):
    """A string of the source, adjacent literals joined."""

    path: str
    line: int
    value: str


def texts(path: Path) -> Iterator[Text]:
    """Every string of a file but its docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield Text(path.relative_to(PLATFORM).as_posix(), node.lineno, node.value)


@cache
def sources() -> list[Text]:
    """Of all files: read by the first test, and not by whoever collects tests."""
    return [text for path in sorted(PLATFORM.rglob("*.py")) for text in texts(path)]


def is_home_of_sql(path: str) -> bool:
    """Repositories, the job's lifecycle, the store; migrations are files of their own."""
    return path.endswith("repository.py") or path.startswith(("lifecycle/", "store/"))


def test_sql_stands_in_repositories_only() -> None:
    assert sum(1 for text in sources() if STATEMENT.match(text.value)) > 100, "the pattern finds what is there"
    elsewhere = [text for text in sources() if STATEMENT.match(text.value) and not is_home_of_sql(text.path)]
    assert not elsewhere, "move it into a *_repository.py"


def test_one_package_writes_the_table_jobs() -> None:
    writers = [text for text in sources() if WRITES_JOBS.search(text.value)]
    assert len(writers) > 20, "the pattern finds what is there"
    assert {text.path.split("/")[0] for text in writers} == {"lifecycle"}


def set_clause(statement: str) -> str:
    """What an update of `jobs` sets."""
    found = re.search(r"update jobs set (.*?)( where id = | where status = |$)", statement, re.DOTALL)
    assert found is not None, statement
    return found.group(1)


def sets_status(statement: str) -> bool:
    return re.search(r"(^|,|\s)status\s*=", re.sub(r"\(.*?\)|case .*? end", "", set_clause(statement))) is not None


def test_every_change_of_a_status_goes_through_a_transition() -> None:
    statements = {
        name: value
        for module in (reconciler_repository, repository, run_repository)
        for name, value in vars(module).items()
        if isinstance(value, str) and "update jobs set" in value
    }
    changes = {name: value for name, value in statements.items() if sets_status(value)}
    assert len(changes) > 8, "the pattern finds what is there"
    for name, statement in changes.items():
        assert "status = %(to)s" in set_clause(statement), name
        assert "status = any(%(expected)s)" in statement, name
    # Statements that are not named set no status at all.
    named = {value for value in statements.values()}
    for text in sources():
        if WRITES_JOBS.search(text.value) and "status = " in text.value and "insert into" not in text.value:
            assert any(text.value in statement for statement in named), text
            assert "status = '" not in text.value.split(" where ")[0], text


def test_a_change_of_a_status_is_made_where_the_machine_is_asked() -> None:
    moving = {
        path.relative_to(PLATFORM).as_posix()
        for path in PLATFORM.rglob("*.py")
        if re.search(r"\b(transition|transition_to)\(", path.read_text())
    }
    assert moving == {
        "lifecycle/machine.py",
        "lifecycle/reconciler_repository.py",
        "lifecycle/repository.py",
        "lifecycle/run_repository.py",
    }
