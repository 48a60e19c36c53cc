"""`make install` gets over what a failed first attempt left. No network: pip and Python are stand-ins."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
PYTHON = """#!/bin/sh
if [ "$1" = -c ]; then exit {is_too_old}; fi
echo "$@" >> {calls}
[ "$2" = venv ] || exit 0
mkdir -p .venv/bin
cp "$0" .venv/bin/python
printf '#!/bin/sh\\n' > .venv/bin/pip
chmod +x .venv/bin/pip
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout as far as `make install` reads it."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def python(folder: Path, name: str, *, is_too_old: bool = False) -> Path:
    """A stand-in that notes what environments it made."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PYTHON.format(is_too_old=int(is_too_old), calls=folder / "calls"))
    path.chmod(0o755)
    return path


def install(folder: Path, python: Path) -> "subprocess.CompletedProcess[str]":
    command = ["make", "install", f"PYTHON={python}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def made(folder: Path) -> list[str]:
    """The environments that were made."""
    calls = folder / "calls"
    return [line for line in calls.read_text().splitlines() if " venv " in line] if calls.exists() else []


def test_an_environment_without_pip_is_made_anew(folder: Path) -> None:
    python(folder, ".venv/bin/python")
    done = install(folder, python(folder, "python3"))
    assert (done.returncode, made(folder)) == (0, ["-m venv --clear .venv"]), done.stderr


def test_an_environment_of_a_python_that_is_too_old_is_made_anew(folder: Path) -> None:
    shutil.copy(python(folder, ".venv/bin/python", is_too_old=True), folder / ".venv" / "bin" / "pip")
    done = install(folder, python(folder, "python3"))
    assert (done.returncode, made(folder)) == (0, ["-m venv --clear .venv"]), done.stderr


def test_a_whole_environment_stays(folder: Path) -> None:
    shutil.copy(python(folder, ".venv/bin/python"), folder / ".venv" / "bin" / "pip")
    done = install(folder, python(folder, "python3", is_too_old=True))
    assert (done.returncode, made(folder)) == (0, []), done.stderr


def test_a_python_that_is_too_old_makes_no_environment(folder: Path) -> None:
    done = install(folder, python(folder, "python3", is_too_old=True))
    assert (done.returncode != 0, made(folder)) == (True, [])
    assert "not Python 3.11 or newer" in done.stderr
