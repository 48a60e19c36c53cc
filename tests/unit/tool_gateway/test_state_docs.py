"""The server that `docs/contract.md` shows, run as it stands there and called as a job calls it."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import EndpointGrader
from rft.core.messages import Message, Role, ToolCall, ToolSchema
from rft.core.spec import RetryBudget, ToolServer
from rft.egress.client import HttpClient
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.tool_gateway.callbacks import RolloutCallbacks
from rft.tool_gateway.gateway import HttpToolGateway
from tests.shared.running_service import RunningService

_DOCS = Path(__file__).parents[3] / "docs" / "contract.md"
ITEM: JsonObject = {"messages": [{"role": "user", "content": "Buy a pen."}], "wanted": ["pen"]}
ADD = ToolSchema(name="add", parameters={"type": "object"})
TRACE = FinishedTrace(
    messages=(Message(role=Role.USER, content="Buy a pen."), Message(role=Role.ASSISTANT, content="Done.")),
    prompt_messages=1,
    tools=(),
    finish_reason="stop",
    model="any",
)


def documented() -> FastAPI:
    """`app`, from the only Python block."""
    (block,) = re.findall(r"```python\n(.*?)```", _DOCS.read_text(encoding="utf-8"), re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "documented"}
    exec(compile(block, str(_DOCS), "exec"), namespace)
    return cast(FastAPI, namespace["app"])


@dataclass(frozen=True, slots=True)
class Job:
    """What a job calls the server with."""

    tools: HttpToolGateway
    grader: HttpGraderGateway
    callbacks: RolloutCallbacks

    async def add(self, article: str, *, trace_id: str, call_id: str) -> str | None:
        call = ToolCall(call_id=call_id, name="add", arguments=json.dumps({"article": article}))
        return (await self.tools.call(call, tools=[ADD], item=ITEM, trace_id=trace_id)).output

    async def score(self, trace_id: str) -> float | FailureCode:
        outcome = await self.grader.grade(TRACE, item=ITEM, trace_id=trace_id)
        return outcome.code if isinstance(outcome, Failure) else outcome.reward


@pytest.fixture
async def job() -> AsyncIterator[Job]:
    budget = RetryBudget(max_retries=1, first_wait_s=0.001)
    with RunningService(documented()) as server:
        tool = ToolServer(name="add", server_url=f"{server.url}/tools", callback_url=f"{server.url}/rollouts")
        grader = EndpointGrader(name="cart", url=f"{server.url}/grade")
        async with EndpointClient(HttpClient(), limits=Limits.fixed(8), retry=budget) as client:
            callbacks = RolloutCallbacks(client, [tool], job_id="ftjob-1")
            yield Job(HttpToolGateway(client, [tool]), HttpGraderGateway(client, grader), callbacks)


async def test_a_call_that_comes_again_is_done_once_and_a_grade_that_comes_again_is_the_same(job: Job) -> None:
    assert await job.callbacks.started(item=ITEM, trace_id="trace_1") is None
    said = [await job.add("pen", trace_id="trace_1", call_id="call_1") for _ in range(2)]
    assert said == ["in the cart: pen"] * 2
    assert [await job.score("trace_1") for _ in range(2)] == [1.0, 1.0]


async def test_rollouts_know_nothing_of_each_other_and_one_that_did_nothing_is_graded(job: Job) -> None:
    for trace_id in ("trace_1", "trace_2"):
        assert await job.callbacks.started(item=ITEM, trace_id=trace_id) is None
    await job.add("pen", trace_id="trace_1", call_id="call_1")
    assert await job.score("trace_2") == 0.0
    assert await job.add("ink", trace_id="trace_2", call_id="call_1") == "in the cart: ink"


async def test_what_a_restart_lost_is_not_begun_anew_in_the_middle_of_a_conversation(job: Job) -> None:
    assert await job.add("pen", trace_id="trace_1", call_id="call_2") is None
    assert await job.score("trace_1") == FailureCode.SERVER_ERROR


async def test_what_has_ended_is_freed_and_not_graded_zero(job: Job) -> None:
    await job.callbacks.started(item=ITEM, trace_id="trace_1")
    await job.add("pen", trace_id="trace_1", call_id="call_1")
    assert await job.callbacks.tell_end(trace_id="trace_1", outcome=Grade(reward=1.0, grader="cart"))
    assert await job.score("trace_1") == FailureCode.SERVER_ERROR
