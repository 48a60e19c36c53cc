"""A job's trainer is told what it computes on, and is not started where that does not go together."""

import json

from rft.core.devices import Devices
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.owner import new_owner
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


async def test_a_trainer_is_told_of_its_arithmetic(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = {"base_dtype": "bfloat16"}
    assert await run_job(job_id, bench.context()) == "over"
    assert json.loads((bench.run_dir(job_id) / "spec.json").read_text())["base_dtype"] == "bfloat16"


async def test_two_trainers_at_once_are_told_of_devices_of_their_own(bench: Workbench) -> None:
    bench.changed_settings = {"devices": "cpu:1; cpu:2", "train_slots": 2}
    other, job_id = await bench.queued_job(), await bench.queued_job()
    async with bench.database.connection() as connection:
        lease = await take(connection, other, owner=new_owner(), ttl_s=600, slots=2)
    assert isinstance(lease, Lease)
    assert await run_job(job_id, bench.context()) == "over"
    spec = json.loads((bench.run_dir(job_id) / "spec.json").read_text())
    assert lease.slot == 0
    assert Devices.model_validate(spec["devices"]) == Devices(cpu_ranks=2)


async def test_a_trainer_is_told_of_its_devices(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = {"devices": "cpu:2"}
    assert await run_job(job_id, bench.context()) == "over"
    spec = json.loads((bench.run_dir(job_id) / "spec.json").read_text())
    assert Devices.model_validate(spec["devices"]) == Devices(cpu_ranks=2)
