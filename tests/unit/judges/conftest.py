"""A scripted judge on a real socket, and a client to call it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from rft.core.finished_trace import FinishedTrace
from rft.core.graders import JudgeServer
from rft.core.messages import Message, Role
from rft.core.spec import RetryBudget
from rft.egress.endpoint_client import EndpointClient
from rft.testing.judge import ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint


@dataclass(frozen=True)
class Courtroom:
    """A judge that listens, and how to reach it."""

    client: EndpointClient
    server: JudgeServer


Court = Callable[[ScriptedJudge], AbstractAsyncContextManager[Courtroom]]


def finished(*messages: Message) -> FinishedTrace:
    """A conversation about one question."""
    return FinishedTrace(messages, prompt_messages=1, finish_reason="stop", model="policy")


def answered(text: str, *, question: str = "What is 6 x 7?") -> FinishedTrace:
    """One question, one answer."""
    return finished(Message(role=Role.USER, content=question), Message(role=Role.ASSISTANT, content=text))


def sent(judge: ScriptedJudge) -> list[dict[str, Any]]:
    """Bodies of all calls so far."""
    return cast("list[dict[str, Any]]", judge.requests)


async def _no_wait(_wait_s: float) -> None:
    return None


@pytest.fixture
def court() -> Court:
    """Opens a courtroom around a scripted judge. Retries do not wait."""

    @asynccontextmanager
    async def open_court(judge: ScriptedJudge) -> AsyncGenerator[Courtroom]:
        async with LoopbackEndpoint(judge) as loopback, EndpointClient.open(retry=RetryBudget(max_retries=2)) as client:
            client.sleep = _no_wait
            yield Courtroom(client, JudgeServer(base_url=f"{loopback.base_url}/v1", timeout_s=60))

    return open_court
