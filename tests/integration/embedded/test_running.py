"""What a running platform shows to its neighbours: keys, sockets, ports, environment. One platform serves all tests."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.shared.running_platform import UP, RunningPlatform, environment, until, up_fails

KEY_CREATE = (*UP[:-1], "key", "create", "colleague")
DOCTOR = (*UP[:-1], "doctor")


WITH_SMALL_LOGS = """
import runpy, sys
from rft.platform.embedded import home, supervisor
home._LOG_BYTES, supervisor._LOGS_POLL_S = 50, 0.1
sys.argv = sys.argv[3:]
runpy.run_module("rft.platform.cli", run_name="__main__")
"""


@pytest.fixture(scope="module")
def platform(module_home: Path) -> Iterator[RunningPlatform]:
    """A platform whose home lies too deep for Unix sockets, and whose logs are cut early."""
    deep = module_home / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    running = RunningPlatform.start(
        deep, extra={"RFT_HEARTBEAT_S": "3"}, before=(sys.executable, "-c", WITH_SMALL_LOGS)
    )
    yield running
    running.end()


def test_logs_are_cut_while_it_runs(platform: RunningPlatform) -> None:
    until((platform.home / "logs" / "worker.log.1").exists, "a log cut")
    platform.kill_child("api")
    until(platform.is_healthy, "healthy")


def port_of(platform: RunningPlatform) -> str:
    return platform.connection().base_url.rsplit(":", 1)[1].removesuffix("/v1")


def test_a_stranger_has_no_key(platform: RunningPlatform) -> None:
    url = platform.connection().base_url
    with (
        openai.OpenAI(base_url=url, api_key="rft_x_y", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.files.list()


def test_a_second_up_is_refused(platform: RunningPlatform) -> None:
    said = up_fails(platform.home)
    assert platform.connection().base_url in said
    assert platform.is_healthy()


def test_socket_paths_fit_and_are_private(platform: RunningPlatform) -> None:
    folder = Path(str(platform.state().socket_dir))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    sockets = [path for path in folder.iterdir() if path.is_socket()]
    assert len(sockets) == 2
    assert all(len(os.fsencode(path)) < 108 for path in sockets)


def test_port_taken(platform: RunningPlatform, tmp_path: Path) -> None:
    port = port_of(platform)
    said = up_fails(tmp_path / "other", {"RFT_PORT": port})
    assert f"cannot listen on 127.0.0.1:{port}" in said


def test_doctor_knows_its_own_platform(platform: RunningPlatform, tmp_path: Path) -> None:
    port = {"RFT_PORT": port_of(platform)}
    own = subprocess.run(DOCTOR, env=environment(platform.home, port), capture_output=True, text=True, cwd="/")
    assert own.returncode == 0, own.stdout
    assert "the platform is running at" in own.stdout
    other = subprocess.run(DOCTOR, env=environment(tmp_path / "x", port), capture_output=True, text=True, cwd="/")
    assert other.returncode == 1
    assert "is not free" in other.stdout
    assert "--port 0" in other.stdout


def test_key_for_a_colleague(platform: RunningPlatform, tmp_path: Path) -> None:
    made = subprocess.run(KEY_CREATE, env=environment(platform.home), capture_output=True, text=True, cwd="/")
    assert made.returncode == 0, made.stderr
    url = platform.connection().base_url
    with openai.OpenAI(base_url=url, api_key=made.stdout.strip(), max_retries=0) as colleague:
        assert colleague.files.list().data == []
    elsewhere = subprocess.run(KEY_CREATE, env=environment(tmp_path / "x"), capture_output=True, text=True, cwd="/")
    assert elsewhere.returncode == 1
    assert "start it with `rft up`" in elsewhere.stderr


def test_children_are_told_where_everything_is(platform: RunningPlatform) -> None:
    told = Path(f"/proc/{platform.child('worker').pid}/environ").read_text().split("\0")
    found = dict(line.split("=", 1) for line in told if line)
    assert found["RFT_HOME"] == str(platform.home)
    assert found["DATABASE_URL"].startswith("postgresql://rft:")
    assert found["BROKER_URL"].startswith("redis+socket://")
    assert (found["RFT_LEASE_TTL_S"], found["RFT_HEARTBEAT_S"], found["RFT_RECONCILE_S"]) == ("8", "3", "2")
    assert found["RFT_PORT"] == port_of(platform)
