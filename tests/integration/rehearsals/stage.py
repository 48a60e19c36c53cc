"""Rows, specifications, customers and orders for rehearsals."""

import json
from dataclasses import dataclass
from typing import Any

import httpx

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow, parse_row
from rft.core.graders import EndpointGrader, GraderSpec
from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.response_format import ResponseFormat
from rft.core.spec import RetryBudget, RunSecrets, RunSpec, ToolServer
from rft.platform.store.database import Database
from rft.platform.worker.context import WorkerContext
from rft.rollouts.rehearsal import rehearse
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalPlan, RehearsalReport
from rft.testing.endpoint import GRADER_PATH, TOOL_PATH, ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, FaultPlan, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import ReceivedMessages

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["query"],
}
SEARCH = {"type": "function", "function": {"name": "search", "parameters": PARAMETERS}}
HOOK_PATH = "/hook"
FAST_RETRY = RetryBudget(max_retries=3, total_s=300.0, first_wait_s=0.01, max_wait_s=0.05)


def line(number: int, *, has_tools: bool = True) -> dict[str, Any]:
    """One row of a dataset."""
    row = {"messages": [{"role": "user", "content": f"What did Acme earn in {1990 + number}?"}], "answer": number}
    return {**row, "tools": [SEARCH]} if has_tools else row


def rows(count: int, *, has_tools: bool = True) -> list[DatasetRow]:
    """A dataset."""
    parsed = [
        parse_row(json.dumps(line(number, has_tools=has_tools)), line_number=1, index=number) for number in range(count)
    ]
    return [row for row in parsed if isinstance(row, DatasetRow)]


def search(arguments: Any, item: Any) -> str:
    """The tool."""
    return f"nothing about {arguments['query']}"


class Customer(ScriptedEndpoint):
    """A customer's tool and grader, and a hook that hears of rollouts."""

    def __init__(self, *, faults: FaultPlan | None = None, latency_s: Any = 0.0) -> None:
        super().__init__(ScriptedTools({"search": search}), ScriptedGrader(0.5), faults=faults, latency_s=latency_s)

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """As ever, but for the hook."""
        return HttpAnswer(200, b"{}") if call.path == HOOK_PATH else await super().answer(call)

    def bodies(self, path: str) -> list[Any]:
        """What was POSTed there."""
        return [json.loads(call.body) for call in self.calls if call.path == path]

    @property
    def tool_bodies(self) -> list[Any]:
        """What the tool was asked."""
        return self.bodies(TOOL_PATH)

    @property
    def grader_bodies(self) -> list[Any]:
        """What the grader was asked."""
        return self.bodies(GRADER_PATH)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One rehearsal to be played."""

    spec: RunSpec
    plan: RehearsalPlan

    async def play(self, rows: list[DatasetRow], secrets: RunSecrets) -> RehearsalReport:
        """The burst, and what came of it."""
        return await rehearse(rows, self.spec, self.plan, secrets)


def spec(
    served: LoopbackEndpoint,
    *,
    rows_per_step: int = 4,
    group_size: int = 2,
    calls_per_rollout: int = 3,
    max_s: float = 300.0,
    retry: RetryBudget = FAST_RETRY,
    grader: GraderSpec | None = None,
    response_format: ResponseFormat | None = None,
    **tool: Any,
) -> Wanted:
    """A rehearsal of one step at this customer."""
    return Wanted(
        RunSpec(
            job_id="rehearsal-1",
            seed=7,
            base_model="",
            model_name="tiny",
            hyperparameters=resolve(Hyperparameters(), train_rows=rows_per_step),
            tools=(ToolServer.model_validate({"name": "search", "server_url": served.tool_url, **tool}),),
            grader=grader or EndpointGrader(name="judge", url=served.grader_url),
            response_format=response_format,
            retry=retry,
        ),
        RehearsalPlan(
            rows_per_step=rows_per_step,
            group_size=group_size,
            rollouts=rows_per_step * group_size,
            calls_per_rollout=calls_per_rollout,
            think_time_s=0.01,
            max_s=max_s,
        ),
    )


def of(report: RehearsalReport, name: str) -> EndpointReport:
    """One endpoint's part of the report."""
    return next(endpoint for endpoint in report.endpoints if endpoint.name == name)


@dataclass(frozen=True, slots=True)
class Platform:
    """API and worker."""

    http: httpx.AsyncClient
    context: WorkerContext
    messages: ReceivedMessages

    @property
    def database(self) -> Database:
        """The worker's."""
        return self.context.database


def job(customer: LoopbackEndpoint) -> dict[str, Any]:
    """A job's order but for its file."""
    tool = {"name": "search", "server_url": customer.tool_url, "headers": {"X-Key": "tool-secret"}}
    grader = {"type": "endpoint", "name": "judge", "url": customer.grader_url, "headers": {"X-Key": "grader-secret"}}
    reinforcement = {
        "grader": grader,
        "tools": [tool],
        "max_episode_steps": 10,
        "hyperparameters": {"batch_size": 4, "compute_multiplier": 0.5},
    }
    return {"method": {"type": "reinforcement", "reinforcement": reinforcement}}


async def upload(http: httpx.AsyncClient, rows: int) -> str:
    """The id of an uploaded training file."""
    content = "".join(f"{json.dumps(line(number))}\n" for number in range(rows)).encode()
    return await upload_bytes(http, content)


async def upload_bytes(http: httpx.AsyncClient, content: bytes) -> str:
    """The id of an uploaded file."""
    files = {"file": ("train.jsonl", content)}
    reply = await http.post("/files", data={"purpose": "fine-tune"}, files=files)
    assert reply.status_code == 200, reply.text
    return reply.json()["id"]
