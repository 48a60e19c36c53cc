"""The unit that `deploy/` ships: its command starts, serves and ends within the time that it names."""

import configparser
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rft.gateway_service.settings import ServiceSettings
from tests.integration.gateways.conftest import TOKEN, Town

DEPLOY = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists()) / "deploy"
EXAMPLE = (DEPLOY / "gateways.env.example").read_text()


@pytest.fixture
def unit() -> configparser.ConfigParser:
    """Its sections."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(DEPLOY / "systemd" / "rft-gateway@.service")
    return parser


def command(unit: configparser.ConfigParser, instance: str, environment: dict[str, str]) -> list[str]:
    """The command as the unit's instance would start it, with this Python."""
    words = unit["Service"]["ExecStart"].replace("%i", instance).split()
    assert words[0].endswith("/bin/python")
    filled = [re.sub(r"\$\{(\w+)\}", lambda name: environment[name[1]], word) for word in words[1:]]
    return [sys.executable, *filled]


@contextmanager
def running(unit: configparser.ConfigParser, instance: str) -> Generator[str]:
    """The address of the unit's instance, until it is stopped as the unit stops it."""
    environment = dict(re.findall(r"^(RFT_\w+)=(.*)$", EXAMPLE, re.MULTILINE)) | {"RFT_GATEWAY_TOKEN": TOKEN}
    process = subprocess.Popen(
        [*command(unit, instance, environment), "--port", "0"],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        found = filter(None, (re.search(r"running on (http://[\d.:]+)", line) for line in process.stderr))
        yield next(found)[1]
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(int(unit["Service"]["TimeoutStopSec"])) in (0, -signal.SIGTERM), said
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize("instance", ["tool", "grader"])
async def test_the_units_command_starts_serves_and_ends_in_time(
    town: Town, unit: configparser.ConfigParser, instance: str
) -> None:
    with running(unit, instance) as url:
        assert b'"status":"ok"' in (await town.ask("GET", f"{url}/health", token=None)).body
        assert (await town.ask("GET", f"{url}/v1/jobs/a/breakers", token=None)).status == 401


@pytest.mark.parametrize("name", ["rft.service", "rft-gateway@.service"])
def test_a_process_that_is_killed_for_memory_stops_no_service(name: str) -> None:
    """systemd stops the whole service otherwise, and code of graders offers itself to be killed first."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(DEPLOY / "systemd" / name)
    assert parser["Service"]["OOMPolicy"] == "continue"


@pytest.mark.parametrize("name", ["rft.service", "rft-gateway@.service"])
def test_a_service_is_started_again_for_as_long_as_it_takes(name: str) -> None:
    """systemd gives up for good otherwise, after five attempts in ten seconds."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(DEPLOY / "systemd" / name)
    assert (parser["Unit"]["StartLimitIntervalSec"], parser["Service"]["Restart"]) == ("0", "always")


@pytest.mark.parametrize(
    ("host", "wrong", "said"),
    [
        ("0.0.0.0", {}, "set RFT_GATEWAY_TOKEN to listen on 0.0.0.0"),
        ("127.0.0.1", {"RFT_ALLOW_CIDRS": "nonsense"}, "RFT_ALLOW_CIDRS is wrong: it is not JSON"),
        ("127.0.0.1", {"RFT_ALLOW_CIDRS": '["nonsense"]'}, "RFT_ALLOW_CIDRS is wrong (at '0"),
        ("127.0.0.1", {"RFT_MAX_CALL_BYTES": "s3cret"}, "RFT_MAX_CALL_BYTES is wrong: input should be"),
        ("127.0.0.1", {"RFT_LOG_LEVEL": "s3cret"}, "RFT_LOG_LEVEL is wrong: it is none of DEBUG"),
    ],
)
def test_wrong_settings_are_told_in_a_line_and_not_tried_again_and_again(
    unit: configparser.ConfigParser, host: str, wrong: dict[str, str], said: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RFT_")} | wrong
    start = command(unit, "tool", {"RFT_GATEWAY_HOST": host})
    ended = subprocess.run(start, env=environment, capture_output=True, text=True, check=False)
    assert str(ended.returncode) in unit["Service"]["RestartPreventExitStatus"].split(), ended.stderr
    assert ended.stderr.startswith(f"python -m rft.tool_gateway: {said}")
    assert ended.stderr.count("\n") == 1
    assert "s3cret" not in ended.stderr


def test_every_setting_of_the_services_is_in_their_example() -> None:
    listed = set(re.findall(r"^#?\s?RFT_(\w+)=", EXAMPLE, re.MULTILINE)) - {"GATEWAY_HOST"}
    assert listed == {name.upper() for name in ServiceSettings.model_fields}


def test_a_command_by_hand_has_the_user_settings_and_home_of_the_service(tmp_path: Path) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(DEPLOY / "systemd" / "rft.service")
    service = parser["Service"]
    stand_in = tmp_path / "systemd-run"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    command = [DEPLOY / "rft-as-service", "keys", "create", "a colleague"]
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/bin"}, capture_output=True, text=True, check=True)
    options, _, started = done.stdout.partition("--\n")
    told = options.splitlines()
    assert f"--uid={service['User']}" in told
    assert f"--property=EnvironmentFile={service['EnvironmentFile']}" in told
    assert {f"--setenv={one}" for one in service["Environment"].split()} <= set(told)
    program = service["ExecStart"].split()[0]
    assert started.splitlines() == [program, "keys", "create", "a colleague"]
