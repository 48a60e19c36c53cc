"""How devices are written, and what is refused."""

import pytest

from rft.core.devices import Devices, parse_devices


@pytest.mark.parametrize(
    ("text", "devices", "ranks"),
    [
        ("cpu:2", Devices(cpu_ranks=2), 2),
        (" train=0 ", Devices(train=(0,)), 1),
        ("train=0,1 vllm=2,3", Devices(train=(0, 1), vllm=(2, 3)), 2),
        ("train=0,1 vllm=0,1", Devices(train=(0, 1), vllm=(0, 1)), 2),
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


def test_gpus_that_train_and_sample_do_so_in_turns() -> None:
    (in_turns,), (apart,), (cpu,) = map(parse_devices, ("train=0,1 vllm=0,1", "train=0 vllm=1", "cpu:2"))
    assert in_turns.take_turns
    assert not apart.take_turns
    assert not cpu.take_turns


@pytest.mark.parametrize(
    "text",
    [
        "train=1,1", "train=0,1 vllm=2,1", "train=0,1; train=1", "train=1,1 vllm=1,1", "train=1 vllm=1; train=1",
        "train=0,1 vllm=1", "train=1 vllm=0,1",
    ],
)  # fmt: skip
def test_a_gpu_has_one_process(text: str) -> None:
    with pytest.raises(ValueError, match="GPU 1 is named twice"):
        parse_devices(text)
