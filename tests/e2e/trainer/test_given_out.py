"""A whole run whose rollouts a worker process runs: what it trains on and tells is what it would have been here."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from pydantic import SecretStr

from rft.core.events import RolloutDone, RolloutsBegan, RunEnded, StepDone
from rft.core.spec import RolloutWorkersSpec, RunSecrets, VllmSpec
from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway import app as grader_gateway
from rft.platform.rollout_inbox.repository import open_inbox
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway import app as tool_gateway
from tests.e2e.trainer.harness import Customer, Trainer, events, write_run
from tests.shared.given_out_run import GATEWAY_TOKEN, VLLM_KEY, TalkingVllm, WorkerProcess, leased_job
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.running_service import RunningService


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_run_trains_on_what_workers_hand_over(
    customer: Customer, base_model: Path, tmp_path: Path, migrated_url: str, broker_url: str
) -> None:
    settings = Settings.model_validate({"home": tmp_path / "home", "DATABASE_URL": migrated_url})
    services = ServiceSettings(gateway_token=SecretStr(GATEWAY_TOKEN))
    worker = WorkerProcess(broker_url, tmp_path / "worker.log")
    try:
        async with (
            Database(migrated_url) as database,
            LoopbackEndpoint(TalkingVllm(base_model, max_model_len=8192)) as vllm,
        ):
            lease = await leased_job(database)
            async with database.transaction() as connection:
                token = await open_inbox(connection, lease)
            with (
                Served(settings, ReceivedMessages()) as port,
                RunningService(tool_gateway.create_app(services)) as tools,
                RunningService(grader_gateway.create_app(services)) as graders,
            ):
                run_dir = write_run(
                    tmp_path / "run", base_model, customer.url, steps=2, valid_rows=2, job_id=lease.id,
                    tool_gateway_url=tools.url, grader_gateway_url=graders.url,
                    vllm=VllmSpec(servers=(vllm.base_url,)),
                    rollout_workers=RolloutWorkersSpec(platform_url=f"http://127.0.0.1:{port}"),
                )  # fmt: skip
                secrets = RunSecrets(
                    tool_headers={"search": {"X-Key": "tool-secret"}}, gateway_token=GATEWAY_TOKEN,
                    vllm_api_key=VLLM_KEY, broker_url=broker_url, inbox_token=str(token),
                )  # fmt: skip
                trainer = Trainer.start(run_dir, secrets)
                status = await asyncio.to_thread(trainer.wait)
                told = [line.event for line in events(run_dir)]
                ended = told[-1]
                assert isinstance(ended, RunEnded)
                assert (status, ended.outcome) == (0, "succeeded"), ended
            async with database.transaction() as connection:
                cursor = await connection.execute(
                    "select (select count(*) from rollout_shards), (select count(*) from inbox_rollouts)"
                )
                assert await cursor.fetchall() == [(0, 0)], "nothing is left behind"
        assert worker.stop() == 0
    finally:
        worker.end()
    steps = [event for event in told if isinstance(event, StepDone)]
    assert [step.train and (step.train.rollouts, step.train.graded) for step in steps] == [None, (8, 8), (8, 8)]
    began = [one for event in told if isinstance(event, RolloutsBegan) for one in event.rollouts]
    done = Counter(event.trace_id for event in told if isinstance(event, RolloutDone))
    assert done == Counter(one.trace_id for one in began)
    assert set(done.values()) == {1}
    assert {one.headers.get("x-key") for one in customer.received if one.path == "/tool"} == {"tool-secret"}
    assert b"secret" not in b"".join(path.read_bytes() for path in run_dir.rglob("*") if path.is_file())
