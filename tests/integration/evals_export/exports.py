"""Exports as tests start them, and what they leave behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.evals_export.hosted_evals import KEY, HostedEvals
from tests.shared.forked_programs import ForkedProgram

SCRIPT = Path(__file__).parents[3] / "examples" / "evals_export.py"


def start(hosted: HostedEvals, folder: Path, *more: str, key: str = KEY) -> ForkedProgram:
    """In a fork, as importing the SDK takes longer than an export."""
    command = [str(SCRIPT), str(folder), "--base-url", hosted.base_url, "--page-size", "2", *more]
    return ForkedProgram(*command, environment={**os.environ, "OPENAI_API_KEY": key})


def export(hosted: HostedEvals, folder: Path, *more: str, key: str = KEY) -> tuple[int, str]:
    """The exit code and all that was shown."""
    code, shown, _ = start(hosted, folder, *more, key=key).outcome(timeout=120)
    assert KEY not in shown.decode()
    return code, shown.decode()


def exported_by_hand(hosted: HostedEvals, folder: Path) -> tuple[int, str]:
    """The same, in an interpreter of its own, as everybody starts it."""
    command = [sys.executable, str(SCRIPT), str(folder), "--base-url", hosted.base_url, "--page-size", "2"]
    environment = {**os.environ, "OPENAI_API_KEY": KEY}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert KEY not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def content(folder: Path) -> dict[str, bytes]:
    """All that an export is, by path; without what it keeps to go on with."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".journal.jsonl"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
