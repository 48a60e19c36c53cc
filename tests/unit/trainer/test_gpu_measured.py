"""What vLLM measures of a GPU when it starts does not change meanwhile: the trainer's base model comes after it."""

import json
from pathlib import Path
from typing import NoReturn

import pytest

from rft.core.devices import Devices
from rft.core.errors import RunPaused
from rft.core.gpu_share import GpuMemory
from rft.core.spec import RunSecrets, VllmSpec
from rft.run_directory import layout
from rft.trainer import training
from rft.trainer.gpu_share import shares_gpu
from rft.trainer.run import run
from tests.unit.engines.vllm.vllm_runs import vllm_run

GPU = GpuMemory(free=20 * 2**30, total=24 * 2**30)


class StartingServer:
    """As an engine of a server that takes long."""

    max_context_tokens = 512

    def __init__(self, done: list[str]) -> None:
        self._done = done

    async def open_all(self) -> None:
        self._done.append("the server is up")

    async def close(self) -> None:
        self._done.append("closed")


@pytest.mark.parametrize(("gpu", "before"), [(GPU, ["has its part", "the server is up"]), (None, [])])
def test_the_base_model_is_loaded_once_the_server_on_its_gpu_is_up(
    gpu: GpuMemory | None, before: list[str], model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()

    def load(*_: object) -> NoReturn:
        done.append("loads")
        raise RunPaused("seen", "enough")

    def take_part(share: float | None) -> None:
        if share is not None:
            done.append("has its part")

    def opened(*_: object) -> StartingServer:
        return StartingServer(done)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # And restored: a run says what its process sees.
    monkeypatch.setattr(training, "own_gpu", lambda: gpu)
    monkeypatch.setattr(training, "take_no_more_than", take_part)
    monkeypatch.setattr(training, "open_engine", opened)
    monkeypatch.setattr(training, "load_base_model", load)
    folder = tmp_path / "run"
    folder.mkdir()
    spec = vllm_run(str(model_dir), VllmSpec()).model_copy(update={"torch_threads": 1})
    (folder / layout.SPEC).write_text(spec.model_dump_json())
    row = {"messages": [{"role": "user", "content": "hello"}]}
    (folder / layout.TRAIN_ROWS).write_text(json.dumps(row) + "\n")
    assert run(folder, RunSecrets()).error_code == "seen"
    assert done == [*before, "loads", "closed"]


@pytest.mark.parametrize(
    ("vllm", "devices", "gpu", "expected"),
    [
        ({}, None, GPU, True),
        ({}, None, None, False),
        ({}, Devices(train=(0, 1)), GPU, True),
        ({}, Devices(train=(0,), vllm=(0,)), GPU, True),
        ({}, Devices(train=(0,), vllm=(1,)), GPU, False),
        ({"servers": ("http://10.0.0.7:8000",)}, None, GPU, False),
    ],
)
def test_a_server_of_the_runs_own_is_on_its_gpu_unless_it_has_another(
    vllm: dict[str, object], devices: Devices | None, gpu: GpuMemory | None, expected: bool
) -> None:
    spec = vllm_run("base", VllmSpec.model_validate(vllm), devices)
    assert shares_gpu(spec, gpu) is expected
    assert not shares_gpu(spec.model_copy(update={"engine": "transformers"}), gpu)
