"""`python -m rft.tool_gateway` and `python -m rft.grader_gateway`, as an operator starts them."""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from rft.core.open_files import ENOUGH
from rft.gateway_service.serving import serve
from rft.tool_gateway.app import create_app
from tests.integration.gateways.conftest import TOKEN, Town

MODULES = ("rft.tool_gateway", "rft.grader_gateway")


@contextmanager
def running(module: str) -> Generator[tuple[str, int]]:
    """The service's address and process, until it is asked to stop; begun with few open files allowed."""
    process = subprocess.Popen(
        ["sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh", sys.executable, "-m", module, "--port", "0"],
        env={**os.environ, "RFT_GATEWAY_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"running on (http://[\d.:]+)", line):
                yield found[1], process.pid
                break
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(120) in (0, -signal.SIGTERM), rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.stderr.close()


@pytest.mark.parametrize("module", MODULES)
async def test_it_starts_serves_and_stops(town: Town, module: str) -> None:
    with running(module) as (url, pid):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        assert soft == (ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)), "calls in flight need more"
        assert b'"status":"ok"' in (await town.ask("GET", f"{url}/health", token=None)).body
        assert (await town.ask("GET", f"{url}/v1/jobs/a/breakers", token=None)).status == 401
        assert (await town.ask("GET", f"{url}/v1/jobs/a/breakers")).status == 404
        if module == "rft.tool_gateway":
            assert (await (await town.trainer(url)).call()).output == "hi"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "gateway.internal"])
def test_without_a_token_only_this_machine_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    monkeypatch.delenv("RFT_GATEWAY_TOKEN", raising=False)
    assert serve(create_app, program="gateway", port=0, arguments=["--host", host]) == 2
    assert "set RFT_GATEWAY_TOKEN" in capsys.readouterr().err
