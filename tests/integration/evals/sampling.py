"""A provider that is registered as `lab`, and runs of evals that ask it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from rft.core.base import JsonObject
from rft.core.messages import ToolCall
from rft.testing.faults import HttpAnswer
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import ScriptedProvider, completion
from tests.integration.evals.stage import Stage

ASK = [{"role": "developer", "content": "Answer."}, {"role": "user", "content": "{{item.question}}"}]
SEARCH = {"name": "search", "description": "Looks up.", "parameters": {"type": "object", "properties": {"q": {}}}}
KEY = "sk-hush"
PRICE = {"prompt": 1.0, "cached_prompt": 0.5, "completion": 2.0}
SILENT = "silent"
"""The answer of a question whose tokens are not told."""


def says(body: JsonObject) -> Any:
    """The answer of an odd question, "8" else; what a tool said, where one was called."""
    messages: Any = body["messages"]
    if messages[-1]["role"] == "tool":
        return messages[-1]["content"]
    if body.get("tools"):
        return [ToolCall(call_id="", name="search", arguments='{"q": "x"}')]
    if messages[-1]["content"].startswith(SILENT):
        told = {name: value for name, value in completion(body, SILENT).items() if name != "usage"}
        return HttpAnswer(200, json.dumps(told).encode())
    return "8" if messages[-1]["content"].startswith("7") else messages[-1]["content"].split()[0]


@asynccontextmanager
async def lab(stage: Stage, scripted: ScriptedProvider) -> AsyncGenerator[ScriptedProvider]:
    """Registered as `lab`."""
    async with LoopbackEndpoint(scripted) as served:
        body = {"name": "lab", "base_url": f"{served.base_url}/v1", "api_key": KEY, "price_per_million": PRICE}
        await stage.client.post("/providers", body=body, cast_to=object)
        yield scripted


def sampled(*rows: Any, kind: str = "completions", **more: Any) -> Any:
    """The data source of a run that asks `lab/small`."""
    template = {"type": "template", "template": ASK}
    source = {"type": "file_content", "content": list(rows)}
    return {"type": kind, "source": source, "model": "lab/small", "input_messages": template, **more}
