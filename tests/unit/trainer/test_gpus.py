"""What is said of a GPU that torch cannot use, or not compute on."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rft.core.devices import Devices
from rft.core.errors import RunPaused
from rft.core.events import Notice
from rft.trainer.ranks import gpus
from rft.trainer.ranks.gpus import check_gpu, require_gpu
from rft.trainer.ranks.world import World

TOO_OLD = "The NVIDIA driver on your system is too old (found version 12020)"


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host with one that torch, whose build is for CPUs, does not see."""
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.setattr(gpus, "_DEVICES", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


def told(devices: Devices | None = None) -> list[Notice]:
    notices = list[Notice]()
    check_gpu(World(), devices, notices.append)
    return notices


@pytest.mark.usefixtures("gpu")
def test_a_gpu_that_torch_cannot_use_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "init", raising(RuntimeError(f"{TOO_OLD}. Please update your GPU driver.")))
    (notice,) = told()
    assert (notice.level, notice.code) == ("warn", "gpu_unused")
    assert f"1 NVIDIA GPU: torch {torch.__version__} cannot use it ({TOO_OLD})." in notice.message


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("visible", ["", "-1"])
def test_one_that_was_hidden_is_not(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert told() == []
    assert told(Devices(cpu_ranks=2)) == []


def test_a_host_without_one_has_nothing_to_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpus, "_DEVICES", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert told() == []


@pytest.mark.usefixtures("gpu")
def test_a_run_that_needs_one_says_why_torch_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "init", raising(RuntimeError(TOO_OLD)))
    with pytest.raises(RunPaused, match=r"rank 0 of 1, which is to train on one \(The NVIDIA driver .* too old"):
        told(Devices(train=(0,)))


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("CUDA error: no kernel image is available for execution on the device\nCompile with", "install a build"),
        ("CUDA error: out of memory\nCompile with", "nvidia-smi"),
    ],
)
def test_one_that_torch_cannot_compute_on_pauses_a_run(
    error: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100")
    monkeypatch.setattr(torch, "ones", raising(RuntimeError(error)))
    with pytest.raises(RunPaused) as paused:
        require_gpu(World(), is_needed=False)
    assert paused.value.code == "devices_unfit"
    assert f"(Tesla V100): {error.splitlines()[0]}. " in str(paused.value)
    assert advice in str(paused.value)


@pytest.mark.lengthy
def test_a_program_says_it_in_one_line() -> None:
    said = subprocess.run([sys.executable, "-m", gpus.__name__], capture_output=True, text=True, check=True).stdout
    assert said == (gpus.problem() or "")
