"""`rft worker --queue rollouts`: processes that are started again when one dies, and all gone with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from kombu.connection import Connection

from rft.core.broker_queue import waiting_messages
from rft.platform.embedded.valkey import EmbeddedValkey
from rft.rollouts import celery_executor
from rft.rollouts.celery_executor import QUEUE, CeleryHints
from rft.rollouts.shards.http_inbox import RunAddress
from tests.shared.free_port import free_port
from tests.shared.given_out_run import WorkerProcess
from tests.shared.rabbitmq import RabbitMq
from tests.shared.refusing_broker import is_refused, refusing_writes
from tests.shared.waiting import is_gone, until

COMMAND = (sys.executable, "-m", "rft.platform.cli", "worker", "--queue", "rollouts")


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RFT_", "BROKER_"))}
    return {**kept, "RFT_HOME": str(home), "RFT_GATEWAY_TOKEN": "gate-secret-7", "PYTHONUNBUFFERED": "1", **more}


def start(env: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("w") as output:
        return subprocess.Popen(
            [*COMMAND, "--processes", "2"], env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )


async def test_a_process_that_dies_is_started_again_and_sigterm_ends_all(broker_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    parent = start(environment(tmp_path, BROKER_URL=broker_url), log)
    try:
        await until(lambda: log.read_text().count(" ready.") == 2, "two rollout workers")
        first, other = psutil.Process(parent.pid).children()
        first.kill()
        await until(lambda: log.read_text().count(" ready.") == 3, "another in its place")
        family = [other.pid, *(child.pid for child in psutil.Process(parent.pid).children())]
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(120) == 0
        assert all(map(is_gone, family))
        assert "was killed by SIGKILL" in log.read_text()
        assert "gate-secret-7" not in log.read_text()
    finally:
        if parent.poll() is None:
            parent.kill()


async def test_a_worker_that_waits_for_the_platform_ends_on_sigterm(broker_url: str, tmp_path: Path) -> None:
    """However long the platform is away."""
    worker = WorkerProcess(broker_url, tmp_path / "log")
    hints = CeleryHints(broker_url, RunAddress(f"http://127.0.0.1:{free_port()}", "ftjob-1", "token-1"))
    try:
        await worker.ready()
        await hints.publish(1)
        await until(lambda: "the inbox cannot be reached" in worker.said, "a worker that waits")
        assert worker.stop() == 0
        assert "leaving without" not in worker.said
    finally:
        hints.close()
        worker.end()


async def test_a_worker_goes_on_after_a_broker_that_refused(
    valkey: EmbeddedValkey, broker_url: str, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker_url, tmp_path / "log")
    hints = CeleryHints(broker_url, RunAddress(f"http://127.0.0.1:{free_port()}", "ftjob-1", "token-1"))
    try:
        await worker.ready()
        with refusing_writes(valkey):
            await until(lambda: is_refused(worker.said), "the worker to be refused")
        await hints.publish(1)
        await until(lambda: "the inbox cannot be reached" in worker.said, "a worker that takes messages")
    finally:
        hints.close()
        worker.end()


@pytest.fixture(params=["broker_url", pytest.param("rabbitmq", marks=pytest.mark.thorough)])
def any_broker_url(request: pytest.FixtureRequest) -> str:
    broker: str | RabbitMq = request.getfixturevalue(request.param)
    return broker.url() if isinstance(broker, RabbitMq) else broker


async def test_hints_are_repeated_once_none_wait_or_seldom(
    any_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a job that always has shards left would stand before all other jobs' before long.

    But what waits may be others', and what this job had told may be lost.
    """
    hints = CeleryHints(any_broker_url, RunAddress("http://127.0.0.1:9", "ftjob-1", "token-1"))
    try:
        with Connection(any_broker_url) as connection:
            for _ in range(2):
                await hints.publish(3, is_again=True)
            assert waiting_messages(connection, QUEUE) == 3
            await hints.publish(2)
            assert waiting_messages(connection, QUEUE) == 5
            with monkeypatch.context() as patch:
                patch.setattr(celery_executor, "_AGAIN_S", 0.0)
                await hints.publish(3, is_again=True)
            assert connection.default_channel.queue_purge(QUEUE) == 6
            await hints.publish(1, is_again=True)
            assert waiting_messages(connection, QUEUE) == 1
            connection.default_channel.queue_purge(QUEUE)
    finally:
        hints.close()


STUCK = """
import sys, time
from rft.trainer import rollout_worker

def stuck(*_, on_stop, **__):
    on_stop()
    time.sleep(600.0)

rollout_worker.serve_hints, rollout_worker._EXIT_S = stuck, 0.2
sys.exit(rollout_worker.main())
"""


def test_a_worker_whose_queue_never_lets_it_go_ends_and_says_where_it_was() -> None:
    config = '{"broker_url": "redis://127.0.0.1:9/0"}'
    done = subprocess.run([sys.executable, "-c", STUCK], input=config, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0
    assert "did not end within 0 s of SIGTERM: leaving without" in done.stderr
    assert "in stuck" in done.stderr


def test_without_a_queue_it_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(COMMAND, env=environment(tmp_path), capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert "BROKER_URL is not set, and no platform runs in" in done.stderr
