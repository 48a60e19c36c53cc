"""`docs/architecture.md` names every package, and nothing that the code does not have."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPO = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
SOURCE_ROOTS = sorted(REPO.glob("*/rft"))
TEXT = (REPO / "docs" / "architecture.md").read_text()


def packages(folder: Path) -> set[str]:
    """Packages and modules directly in a folder, but for those that hold no Python."""
    found = {entry.name for entry in folder.iterdir() if entry.is_dir() and any(entry.glob("*.py"))}
    return found | {entry.stem for entry in folder.glob("*.py") if entry.stem != "__init__"}


ROOTS = {name for root in SOURCE_ROOTS for name in packages(root)} | {"platform"}
NAMES = sorted({name for name in re.findall(r"`([a-z_]+(?:\.\w+)*)`", TEXT) if name.partition(".")[0] in ROOTS})


@cache
def members(module: Path) -> dict[str, ast.AST]:
    """What a module defines, or imports to be found there."""
    return _defined(ast.parse(module.read_text()).body)


def _defined(body: list[ast.stmt]) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found[statement.name] = statement
            case ast.Assign():
                found |= {target.id: statement for target in statement.targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = statement
            case _:
                pass
    return found


def is_there(name: str) -> bool:
    """Whether a dotted name below `rft` is a package, a module, or something a module defines."""
    return any(_is_below(root, name.split(".")) for root in SOURCE_ROOTS)


def _is_below(folder: Path, parts: list[str]) -> bool:
    if not parts:
        return True
    module = folder / f"{parts[0]}.py"
    if module.is_file():
        return _is_defined(members(module), parts[1:])
    return (folder / parts[0]).is_dir() and _is_below(folder / parts[0], parts[1:])


def _is_defined(known: dict[str, ast.AST], parts: list[str]) -> bool:
    if not parts:
        return True
    found = known.get(parts[0])
    return found is not None and _is_defined(_defined(found.body) if isinstance(found, ast.ClassDef) else {}, parts[1:])


@pytest.mark.parametrize("name", NAMES)
def test_the_map_names_what_there_is(name: str) -> None:
    assert is_there(name)


def test_names_that_are_not_there_are_found_out() -> None:
    assert is_there("egress.retry.decide")
    assert not is_there("egress.retry.decides")
    assert not is_there("egress.retries")
    assert not is_there("egress.retry.decide.further")


def test_the_map_names_every_package() -> None:
    platform = {f"platform.{name}" for name in packages(REPO / "platform" / "rft" / "platform")}
    assert platform | ROOTS <= set(NAMES)


def test_the_map_is_about_a_page() -> None:
    assert len(TEXT.splitlines()) <= 120
