"""A GPU that breaks ends the process, not the run: a new one goes on from the last complete checkpoint."""

import json
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from rft.core.errors import GpuLost
from rft.core.spec import RunSecrets, VllmSpec
from rft.run_directory import layout
from rft.trainer import training
from rft.trainer.ranks import other_rank
from rft.trainer.run import run
from rft.trainer.token_budget import is_gpu_lost
from tests.unit.engines.vllm.vllm_runs import vllm_run

LOST = "CUDA error: unspecified launch failure"
IS_LOST = [
    (torch.AcceleratorError(LOST), True),
    (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"), True),
    (torch.AcceleratorError("CUDA error: out of memory"), False),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), False),
    (torch.OutOfMemoryError("CUDA out of memory."), False),
    (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    (ValueError(LOST), False),
]


@pytest.mark.parametrize(("error", "expected"), IS_LOST)
def test_it_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_gpu_lost(error) is expected


def _run_that_raises(
    error: Exception, model_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str | None, list[str]]:
    """What the run ended with, and the types of its events."""

    def load(*_: object) -> NoReturn:
        raise error

    class Engine:
        max_context_tokens = 512

        async def close(self) -> None: ...

    def opened(*_: object) -> Engine:
        return Engine()

    monkeypatch.setattr(training, "open_engine", opened)
    monkeypatch.setattr(training, "load_base_model", load)
    folder.mkdir()
    spec = vllm_run(str(model_dir), VllmSpec()).model_copy(update={"torch_threads": 1})
    (folder / layout.SPEC).write_text(spec.model_dump_json())
    row = {"messages": [{"role": "user", "content": "hello"}]}
    (folder / layout.TRAIN_ROWS).write_text(json.dumps(row) + "\n")
    try:
        code = run(folder, RunSecrets()).error_code
    except GpuLost as lost:
        code = str(lost)
    lines = (folder / layout.EVENTS).read_text().splitlines()
    return code, [json.loads(line)["event"]["type"] for line in lines]


def test_a_run_whose_gpu_broke_has_not_ended(model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, events = _run_that_raises(torch.AcceleratorError(LOST), model_dir, tmp_path / "run", monkeypatch)
    assert code == LOST
    assert "run_started" in events
    assert "run_ended" not in events


def test_one_that_ran_out_of_a_gpu_s_memory_has(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = torch.AcceleratorError("CUDA error: out of memory")
    code, events = _run_that_raises(error, model_dir, tmp_path / "run", monkeypatch)
    assert code == "out_of_memory"
    assert events[-1] == "run_ended"


def test_a_rank_whose_gpu_broke_ends() -> None:
    def compute() -> NoReturn:
        raise torch.AcceleratorError(LOST)

    for is_pass_of_all in (False, True):
        with pytest.raises(GpuLost, match="unspecified launch failure"):
            other_rank._attempted(compute, is_pass_of_all=is_pass_of_all)  # pyright: ignore[reportPrivateUsage]
