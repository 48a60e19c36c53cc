"""How a vLLM server is told to compute: in bfloat16, but where its GPU does not know it."""

from pathlib import Path

import pytest

from rft.vllm_server.command import ServerOptions, server_command
from rft.vllm_server.half_precision import know_bfloat16


def dtype_of(*, is_cpu: bool = False, knows_bfloat16: bool = True) -> str:
    options = ServerOptions("base", 7001, is_cpu=is_cpu, knows_bfloat16=knows_bfloat16)
    command = server_command(Path("python"), options)
    return command[command.index("--dtype") + 1]


def test_a_gpu_that_does_not_know_bfloat16_has_what_the_model_bears() -> None:
    assert dtype_of() == "bfloat16"
    assert dtype_of(knows_bfloat16=False) == "auto"
    assert dtype_of(is_cpu=True, knows_bfloat16=False) == "float32"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 9.0", True),
        ("echo 8.6; echo 12.0", True),
        ("echo 7.5", False),
        ("echo 8.0; echo 7.0", False),
        ("echo '[N/A]'", True),
        ("exit 9", True),
    ],
)
def test_the_driver_is_asked(script: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert know_bfloat16() is expected


def test_a_host_without_a_driver_has_nothing_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert know_bfloat16()
