"""A vLLM server of our own holds adapters up to a rank; larger ones are served by one of their own."""

from pathlib import Path
from typing import Any, cast

import pytest

from rft.core.chat_spec import ChatSpec
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel
from rft.platform.settings import Settings
from rft.serving_wire.records import AdapterRef


def processes_of(home: Path, **changes: Any) -> ServingProcesses:
    settings: dict[str, Any] = {"home": home, "engine": "vllm", **changes}
    return ServingProcesses(Settings.model_validate(settings), cast(Any, None))


def model(rank: int | None) -> ServedModel:
    adapter = None if rank is None else AdapterRef(directory="/runs/checkpoint-1")
    return ServedModel("/models/tiny", ChatSpec(), adapter, rank or 0)


@pytest.mark.parametrize(("rank", "held"), [(None, 64), (8, 64), (64, 64), (65, 128), (128, 128), (512, 512)])
def test_its_server_holds_the_adapter(tmp_path: Path, rank: int | None, held: int) -> None:
    processes = processes_of(tmp_path)
    spec = processes._spec(model(rank), tmp_path)  # pyright: ignore[reportPrivateUsage]
    assert spec.lora_rank == held


def test_only_a_rank_that_the_usual_server_does_not_hold_has_a_process_of_its_own(tmp_path: Path) -> None:
    own = processes_of(tmp_path)
    usual = {own.folder_of(model(rank)) for rank in (None, 8, 64)}
    assert len(usual) == 1
    assert len(usual | {own.folder_of(model(128)), own.folder_of(model(100))}) == 2
    # The operator's servers hold what they were started for, and the default engine holds any.
    for others in (
        processes_of(tmp_path, vllm_servers=["http://a:8000"]),
        processes_of(tmp_path, engine="transformers"),
    ):
        assert others.folder_of(model(512)) == others.folder_of(model(8))


@pytest.mark.parametrize("devices", ["cpu:2", "train=0 vllm=1", "train=0 vllm=0", None])
def test_its_server_asks_for_the_share_that_is_set_whatever_gpus_jobs_have(tmp_path: Path, devices: str | None) -> None:
    for share in (None, 0.3):
        processes = processes_of(tmp_path, devices=devices, vllm_gpu_memory_share=share)
        spec = processes._spec(model(None), tmp_path)  # pyright: ignore[reportPrivateUsage]
        assert spec.vllm.gpu_memory_share == share
