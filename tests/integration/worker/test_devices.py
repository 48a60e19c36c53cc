"""A job's trainer is told what it computes on, and is not started where that does not go together."""

import json

from rft.core.devices import Devices
from rft.platform.worker.run_job import run_job
from tests.integration.worker.workbench import Workbench


async def test_a_job_fails_in_words_where_devices_do_not_suit_the_engine(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = {"devices": "train=0 vllm=1"}
    assert await run_job(job_id, bench.context()) == "failed"
    job = await bench.job(job_id)
    assert job["error"]["code"] == "devices_not_usable"
    assert "RFT_DEVICES is `train=0 vllm=1`, but it names GPUs for vLLM" in job["error"]["message"]
    assert not bench.launches


async def test_a_trainer_is_told_of_its_devices(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = {"devices": "cpu:2"}
    assert await run_job(job_id, bench.context()) == "over"
    spec = json.loads((bench.run_dir(job_id) / "spec.json").read_text())
    assert Devices.model_validate(spec["devices"]) == Devices(cpu_ranks=2)
