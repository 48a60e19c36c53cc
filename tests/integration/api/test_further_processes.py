"""A further process of the API, started as `deploy/README.md` says."""

import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import AsyncOpenAI

from rft.core.open_files import ENOUGH
from tests.shared.running_api import Api

README = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists()) / "deploy" / "README.md"
FEW = 256
GRACE_S = 30.0
"""What a busy machine may take beyond the three seconds that the command names."""


def command() -> list[str]:
    """The documented one, on a free port."""
    words = shlex.split(next(line for line in README.read_text().splitlines() if line.startswith("uvicorn ")))
    words[words.index("--port") + 1] = "0"
    return [sys.executable, "-m", *words]


@contextmanager
def beside(api: Api) -> Generator[tuple[subprocess.Popen[str], str]]:
    """One over the same database and home, and its address."""
    own = {
        "DATABASE_URL": api.settings.database_url or "",
        "BROKER_URL": "redis://127.0.0.1:9/0",
        "RFT_HOME": str(api.settings.home),
    }
    process = subprocess.Popen(
        command(), env={**os.environ, **own}, preexec_fn=_as_in_a_shell, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        said = next(line for line in process.stderr if "running on " in line)
        yield process, said.split("running on ")[1].split()[0]
    finally:
        process.kill()
        process.stderr.close()
        process.wait()


def _as_in_a_shell() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


async def test_it_may_have_as_many_connections_as_one_of_rft_up(api: Api) -> None:
    with beside(api) as (process, _):
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert soft == (ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard))
    assert soft > FEW


async def test_it_ends_when_it_is_told_to_while_a_page_follows_a_job(
    api: Api, client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    headers = {"authorization": f"Bearer {api.key}"}
    with (
        beside(api) as (process, url),
        httpx.stream("GET", f"{url}/v1/fine_tuning/jobs/{job.id}/stream", headers=headers, timeout=60.0) as followed,
    ):
        assert followed.status_code == 200
        process.send_signal(signal.SIGTERM)
        process.wait(GRACE_S)
