"""Which rank a process is and what it computes on: the variables of torchrun, or RFT_DEVICES."""

import gc
import os

import pytest

from rft.core.devices import Devices
from rft.core.errors import RunPaused
from rft.trainer.__main__ import main
from rft.trainer.ranks.world import World, hide_launch, launched_world, local_world, use_own_gpu

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "h"}


def test_a_process_of_torchrun_knows_its_place_and_any_other_has_none() -> None:
    assert launched_world(TORCHRUN) == World(rank=5, size=8, local_rank=1, local_size=4)
    assert launched_world({}) is None
    assert launched_world({"WORLD_SIZE": "8"}) is None, "a variable of the cluster alone"
    assert launched_world({**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"}) is None


def test_ranks_share_the_threads_of_their_host() -> None:
    assert World().threads(7) == 7
    assert World(size=8, local_size=3).threads(7) == 2
    assert World(size=8, local_size=8).threads(2) == 1


def test_no_more_ranks_than_cores() -> None:
    assert local_world(None) == World()
    assert local_world(Devices(cpu_ranks=4), cores=4) == World(size=4, local_size=4)
    assert local_world(Devices(train=(0, 3)), cores=1) == World(size=2, local_size=2)
    with pytest.raises(
        RunPaused, match="asks for 4 ranks on the CPU, and this host lets us have 3 of its cores"
    ) as paused:
        local_world(Devices(cpu_ranks=4), cores=3)
    assert paused.value.code == "devices_unfit"


@pytest.mark.parametrize(
    ("devices", "local_rank", "before", "after"),
    [
        (Devices(cpu_ranks=2), 1, "0,1", ""),
        (None, 0, None, "0"),
        (None, 0, "4,7", "4"),
        (None, 1, "4,7", "7"),
        (None, 2, "4,7", ""),
        (None, 2, "4", "4"),
        (None, 0, "", ""),
    ],
)
def test_each_rank_sees_its_own_gpu_alone(
    devices: Devices | None, local_rank: int, before: str | None, after: str
) -> None:
    environment = {} if before is None else {"CUDA_VISIBLE_DEVICES": before}
    use_own_gpu(environment, World(rank=local_rank, size=3, local_rank=local_rank, local_size=3), devices)
    assert environment["CUDA_VISIBLE_DEVICES"] == after


def test_gpus_that_were_named_are_numbered_as_nvidia_smi_does() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    use_own_gpu(environment, World(1, 2, 1, 2), Devices(train=(2, 5), vllm=(0,)))
    assert environment == {"CUDA_VISIBLE_DEVICES": "5", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_a_rank_that_torchrun_started_sees_its_own_gpu_alone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[World, str]] = []

    def compute_as(world: World) -> int:
        seen.append((world, os.environ["CUDA_VISIBLE_DEVICES"]))
        return 0

    monkeypatch.setattr("rft.trainer.ranks.process.compute_as", compute_as)
    monkeypatch.setattr("rft.trainer.__main__.end_with_launcher", lambda: None)
    for name, value in {**TORCHRUN, "CUDA_VISIBLE_DEVICES": "2,3,4,5"}.items():
        monkeypatch.setenv(name, value)
    try:
        assert main(["unused"]) == 0
    finally:
        gc.enable()
    assert seen == [(World(rank=5, size=8, local_rank=1, local_size=4), "3")]


def test_accelerate_is_told_of_no_other_ranks() -> None:
    environment = {**TORCHRUN, "ACCELERATE_USE_FSDP": "true", "PATH": "/bin"}
    hide_launch(environment)
    assert environment == {"MASTER_ADDR": "h", "PATH": "/bin"}
