"""A trainer gives a call at a service the time that the job gives it."""

import pytest

from rft.core.spec import RetryBudget
from rft.egress.client import HttpClient
from rft.egress.endpoint import HeaderList
from rft.egress.reply import AttemptFailure, Reply
from rft.gateway_service.connection import Listener, ServiceConnection
from rft.gateway_service.wire import ServiceReply, encode

DAY_S = 86_400.0


async def test_a_call_outlasts_a_day_in_which_its_job_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint is down, its calls wait in the service, and no deadline of a rollout runs on."""
    given: list[float] = []

    async def ask(
        self: HttpClient, method: str, url: str, body: bytes, *, headers: HeaderList, timeout_s: float
    ) -> Reply | AttemptFailure:
        del self, method, headers, body
        if url.endswith("/calls"):
            given.append(timeout_s)
        return Reply(status=200, headers={}, body=encode(ServiceReply()), elapsed_s=0.0)

    monkeypatch.setattr(HttpClient, "ask", ask)
    line = ServiceConnection(
        "tool gateway",
        "http://127.0.0.1:1",
        token=None,
        job_id="ftjob-1",
        registration=None,
        listener=Listener(),
        retry=RetryBudget(total_s=60.0),
    )
    reply = await line.call("calls", ServiceReply(), ServiceReply)
    await line.aclose()
    assert isinstance(reply, ServiceReply)
    assert [patience_s > DAY_S for patience_s in given] == [True]
