"""The API in a process of its own, whose memory can be told from ours, and which can be killed."""

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def api_process(home: Path, database_url: str) -> Generator[tuple[psutil.Process, str]]:
    """The process, and the address where it answers."""
    command = [
        *(sys.executable, "-m", "uvicorn", "--factory", "rft.platform.app:create_app"),
        *("--port", "0", "--log-level", "info"),
    ]
    log = home / "api.log"
    environment = {
        "DATABASE_URL": database_url,
        "BROKER_URL": "redis://127.0.0.1:9/0",  # Nothing that is ordered here is waited for.
        "RFT_HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120
        while "running on http" not in (said := log.read_text()):
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        yield psutil.Process(process.pid), said.split("running on ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(120)
