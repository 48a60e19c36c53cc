"""A model is only loaded where there is memory for it beside what is reserved for training."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from rft.core.chat_spec import ChatSpec
from rft.platform.api.errors import Unavailable
from rft.platform.serving.memory import free_bytes, needed_bytes
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel
from rft.platform.settings import Settings

WEIGHTS = 3 << 20


def model(folder: Path, dtype: str) -> Path:
    (folder / "model.safetensors").write_bytes(b"\0" * WEIGHTS)
    (folder / "config.json").write_text(json.dumps({"dtype": dtype}))
    return folder


def test_half_precision_takes_twice_its_files(tmp_path: Path) -> None:
    single, half = tmp_path / "single", tmp_path / "half"
    single.mkdir()
    half.mkdir()
    more = needed_bytes(model(half, "bfloat16")) - needed_bytes(model(single, "float32"))
    assert more == WEIGHTS


def test_free_memory_is_what_the_system_says(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  2000 kB\nMemAvailable:   1000 kB\n")
    assert free_bytes(tmp_path / "meminfo") == 1000 << 10
    assert free_bytes(tmp_path / "nothing") is None


async def test_no_room_is_told_with_the_reason_and_when_to_come_again(tmp_path: Path) -> None:
    if free_bytes() is None:
        pytest.skip("this system does not tell its free memory")
    settings = Settings.model_validate({"home": tmp_path / "home", "serving_reserve_bytes": 1 << 60})
    nobody = cast(Any, None)
    processes = ServingProcesses(settings, nobody)
    served = ServedModel(str(model(tmp_path, "float32")), ChatSpec(), None)
    with pytest.raises(Unavailable, match="GiB are free: training jobs have the rest") as raised:
        async with processes.serving(served):
            raise AssertionError("it was let in")
    assert raised.value.code == "not_enough_memory"
    assert raised.value.retry_after_s == 30
