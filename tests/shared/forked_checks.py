"""Base models are looked at in forks of a process that has imported what looks at them: a start of it takes 7 s."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rft.platform.orders import model_checks
from tests.shared.forked_programs import ForkedProgram


def run_forked(command: list[str], *, timeout: float, **_: Any) -> "subprocess.CompletedProcess[bytes]":
    """As `subprocess.run` with its output captured and its status checked."""
    assert command[:3] == [sys.executable, "-m", "rft.trainer.check"]
    program = ForkedProgram(*command[2:], environment=os.environ, are_errors_apart=True)
    status, output, errors = program.outcome(timeout)
    done = subprocess.CompletedProcess(command, status, output, errors)
    done.check_returncode()
    return done


def fork_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process's platform."""
    monkeypatch.setattr(model_checks, "subprocess", SimpleNamespace(**vars(subprocess) | {"run": run_forked}))
