"""Publishing to a broker that is away costs no wait."""

import threading

import kombu.utils.functional
import pytest
from celery import Celery

from rft.platform.queue import celery_app, publishing
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.queue.publishing import celery_enqueuer, enqueue_all
from tests.shared.servers import refused_port

__all__ = ("refused_port",)


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_refuses_connections_is_not_waited_for(
    scheme: str, refused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[float]()
    monkeypatch.setattr(kombu.utils.functional, "sleep", waits.append)
    app = Celery("tests", broker=f"{scheme}://127.0.0.1:{refused_port}", set_as_current=False)
    monkeypatch.setattr(celery_app, "app", app)
    enqueue = celery_enqueuer()
    with pytest.raises(Exception, match="refused"):
        enqueue(TaskMessage(RUN_JOB, "ftjob-1"))
    assert waits == []


async def test_a_broker_that_says_nothing_is_not_asked_for_each_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(publishing, "ENQUEUE_TIMEOUT_S", 0.05)
    asked, is_over = list[str](), threading.Event()

    def enqueue(message: TaskMessage) -> None:
        asked.append(message.job_id)
        is_over.wait()

    try:
        await enqueue_all([TaskMessage(RUN_JOB, f"ftjob-{n}") for n in range(5)], enqueue)
    finally:
        is_over.set()
    assert asked == ["ftjob-0"]
    assert "ftjob-0 was not published" in caplog.text
    assert "not asked for 4 more" in caplog.text
