"""A worker that could do none of the tasks that it would take ends at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "DATABASE_URL and BROKER_URL must be set"),
        ({"BROKER_URL": "redis://127.0.0.1:1/0"}, "DATABASE_URL must be set"),
        ({"DATABASE_URL": "postgresql://x@127.0.0.1:1/x"}, "BROKER_URL must be set"),
    ],
)
def test_it_names_what_is_missing(given: dict[str, str], told: str, tmp_path: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BROKER_URL")}
    ended = subprocess.run(
        [sys.executable, "-m", "rft.platform.embedded.worker_process"],
        env={**ours, "RFT_HOME": str(tmp_path), **given}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 1
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
