"""How devices are written, and what is refused."""

import pytest

from rft.core.devices import Devices, parse_devices


@pytest.mark.parametrize(
    ("text", "devices", "ranks"),
    [
        ("cpu:2", Devices(cpu_ranks=2), 2),
        (" train=0 ", Devices(train=(0,)), 1),
        ("train=0,1 vllm=2,3", Devices(train=(0, 1), vllm=(2, 3)), 2),
    ],
)
def test_what_can_be_written(text: str, devices: Devices, ranks: int) -> None:
    assert parse_devices(text) == (devices,)
    assert devices.ranks == ranks


def test_each_of_several_trainers_has_its_own() -> None:
    first, second = Devices(train=(0,), vllm=(1,)), Devices(train=(2,), vllm=(3,))
    assert parse_devices("train=0 vllm=1; train=2 vllm=3") == (first, second)


@pytest.mark.parametrize(
    "text", ["", "cpu", "cpu:0", "cpu:2 vllm=0", "gpu:2", "vllm=0", "train=", "train=0, 1", "0,1", "train=0;"]
)
def test_another_spelling_is_refused_with_all_that_are_known(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is none of `cpu:2` .*`train=0,1` .*`train=0,1 vllm=2,3`"):
        parse_devices(text)


@pytest.mark.parametrize("text", ["train=1,1", "train=0,1 vllm=2,1", "train=0,1; train=1"])
def test_a_gpu_has_one_process(text: str) -> None:
    with pytest.raises(ValueError, match="GPU 1 is named twice"):
        parse_devices(text)
