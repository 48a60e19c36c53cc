"""A platform with its API, its worker's context and the official SDK; evals and their items."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI

from rft.platform.queue.messages import RUN_EVAL, TaskMessage
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.run_eval import run_eval
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from tests.shared.running_api import ReceivedMessages

BLOCKED = "blocked"
ITEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["question", "answer"],
}
CUSTOM: Any = {"type": "custom", "item_schema": ITEM_SCHEMA, "include_sample_schema": True}
EXACT: Any = {
    "type": "string_check",
    "name": "exact",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "operation": "eq",
}


def row(answer: str, said: str | None) -> dict[str, Any]:
    """An item that brings a sample, or none."""
    sample = {} if said is None else {"sample": {"output_text": said}}
    return {"item": {"question": f"{answer} + 0?", "answer": answer}, **sample}


def inline(*rows: Any) -> Any:
    """The data source of these items."""
    return {"type": "jsonl", "source": {"type": "file_content", "content": list(rows)}}


class Gate(ScriptedEndpoint):
    """A grader that does not answer for some items until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """1, in time."""
        if json.loads(call.body)["item"]["answer"] == BLOCKED:
            await self.opened.wait()
        return HttpAnswer(200, b'{"score": 1}')

    def asked(self, question: str) -> int:
        """How often an item with this question was graded."""
        return sum(json.loads(call.body)["item"]["question"] == question for call in self.calls)


class PartlySilent(ScriptedEndpoint):
    """A grader that has no verdict on the items that it is told to have none of."""

    def __init__(self) -> None:
        super().__init__()
        self.silent_on: set[str] = set()
        self.asked: list[str] = []

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        answer = json.loads(call.body)["item"]["answer"]
        self.asked.append(answer)
        return HttpAnswer(200, b'{"score": null}' if answer in self.silent_on else b'{"score": 1}')


def gated_rows() -> list[dict[str, Any]]:
    """Six items, half of which wait for the gate."""
    made = [row(BLOCKED if number % 2 else "free", "x") for number in range(6)]
    for number, each in enumerate(made):
        each["item"]["question"] = f"q{number}"
    return made


@dataclass(frozen=True, slots=True)
class Stage:
    """API, worker, and their caller."""

    url: str
    """Ends in `/v1`."""
    key: str
    client: AsyncOpenAI
    context: WorkerContext
    messages: ReceivedMessages

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, key: str, context: WorkerContext, messages: ReceivedMessages
    ) -> AsyncGenerator["Stage"]:
        """With the SDK that calls it."""
        async with AsyncOpenAI(base_url=url, api_key=key, max_retries=0) as client:
            yield cls(url, key, client, context, messages)

    async def upload(self, lines: str) -> Any:
        """The data source of a file of such lines."""
        made = await self.client.files.create(file=("items.jsonl", lines.encode()), purpose="evals")
        return {"type": "jsonl", "source": {"type": "file_id", "id": made.id}}

    async def work(self, run_id: str) -> str:
        """What a worker does with its message."""
        return await run_eval(run_id, self.context)

    async def run(self, eval_id: str, source: Any, **more: Any) -> Any:
        """A run, worked on and read again."""
        made = await self.client.evals.runs.create(eval_id, data_source=source, extra_body=more)
        assert self.messages.received[-1] == TaskMessage(RUN_EVAL, made.id)
        await self.work(made.id)
        return await self.client.evals.runs.retrieve(made.id, eval_id=eval_id)

    def items(self, eval_id: str, run_id: str, **query: Any) -> Any:
        """Pages of output items."""
        return self.client.evals.runs.output_items.list(run_id, eval_id=eval_id, **query)

    async def retry(self, eval_id: str, run_id: str) -> Any:
        """As it is then."""
        return await self.client.post(f"/evals/{eval_id}/runs/{run_id}/retry", cast_to=object)

    async def make(self, *criteria: Any, config: Any = CUSTOM) -> str:
        """The id of a new eval."""
        made = await self.client.evals.create(data_source_config=config, testing_criteria=list(criteria or (EXACT,)))
        return made.id
