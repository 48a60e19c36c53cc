"""The command starts quickly: what a command does not need is not imported for it."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rft.platform.cli.app import app

HEAVY = ("fastapi", "starlette", "celery", "torch", "transformers", "psycopg", "httpx", "aiohttp", "openai", "uvicorn")


def imported_by(*arguments: str) -> set[str]:
    """Top-level modules after a command."""
    code = (
        "import sys\n"
        "from rft.platform.cli.app import app\n"
        f"app({list(arguments)!r}, standalone_mode=False)\n"
        "print('\\n' + ' '.join({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_version_is_told_without_the_platform() -> None:
    assert not imported_by("version") & {*HEAVY, "rich"}


def test_the_version_is_an_option_too() -> None:
    told = [CliRunner().invoke(app, [word]).output for word in ("--version", "version")]
    assert told[0] == told[1] != ""


@pytest.mark.lengthy
@pytest.mark.parametrize("command", ["files", "jobs", "rollouts", "tools", "graders", "models", "secrets", "key"])
def test_help_needs_nothing_of_the_platform(command: str) -> None:
    assert not imported_by(command, "--help") & set(HEAVY)


def test_a_client_needs_neither_web_framework_nor_database() -> None:
    code = (
        "import sys\n"
        "import rft.platform.cli.session, rft.platform.cli.transfer, rft.platform.cli.watch\n"
        "import rft.platform.cli.pages, rft.platform.cli.chart\n"
        "print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & (set(HEAVY) - {"httpx"})


@pytest.mark.lengthy
def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        asked = {"_RFT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        code = "import sys; sys.argv[0] = 'rft'; from rft.platform.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
        return done.stdout.split()

    assert completed("rft jobs w") == ["watch"]
    assert {"files", "jobs", "rollouts", "regrade"} <= set(completed("rft "))
    assert "--outcome" in completed("rft rollouts list --o")
    assert completed("rft rollouts list --split ") == ["train", "valid", "test"]
