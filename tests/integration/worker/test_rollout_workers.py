"""A job whose rollouts are run by workers: its trainer is given an inbox of its own, and none where it cannot work."""

import json

from rft.platform.worker.run_job import run_job
from tests.integration.worker.workbench import Workbench

WHOLE = {
    "rollout_workers": "celery",
    "BROKER_URL": "redis://:queue-secret@127.0.0.1:9/0",
    "engine": "vllm",
    "vllm_servers": ["http://127.0.0.1:9"],
    "tool_gateway_url": "http://127.0.0.1:9",
    "grader_gateway_url": "http://127.0.0.1:9",
}


async def test_a_job_that_workers_cannot_run_fails_in_words(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = {**WHOLE, "engine": "transformers"}
    assert await run_job(job_id, bench.context()) == "failed"
    job = await bench.job(job_id)
    assert job["error"]["code"] == "rollout_workers_not_usable"
    assert "RFT_ENGINE is `transformers`, which samples inside the trainer's own process" in job["error"]["message"]
    assert not bench.launches


async def test_a_trainer_is_given_an_inbox_that_is_closed_after_it(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = dict(WHOLE)
    assert await run_job(job_id, bench.context()) == "over"
    spec = json.loads((bench.run_dir(job_id) / "spec.json").read_text())
    assert spec["rollout_workers"] == {"platform_url": "http://127.0.0.1:8787"}
    kept = b"".join(path.read_bytes() for path in bench.run_dir(job_id).rglob("*") if path.is_file())
    assert b"queue-secret" not in kept
    assert b"rftrun." not in kept
    given = json.loads((bench.control / "secrets.json").read_text())
    lease = (await bench.job(job_id))["lease_token"]
    assert given["broker_url"] == WHOLE["BROKER_URL"]
    assert given["inbox_token"].startswith(f"rftrun.{lease}.1.")
    assert await bench.all("select * from rollout_inboxes") == []
