"""What the cases share: one realistic tool call, and an endpoint in a process of its own."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from rft.core.base import JsonObject
from rft.core.messages import ToolCall, ToolSchema

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
SEARCH = ToolSchema(
    name="search",
    description="Search the reports.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 20}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
ITEM: JsonObject = {
    "messages": [{"role": "user", "content": "What was the operating margin of Acme in 2019? " * 8}],
    "answer": "0.173",
}
ARGUMENTS = json.dumps({"query": "operating margin 2019 " * 8, "limit": 5})


def tool_call(number: int) -> ToolCall:
    """One well-formed call."""
    return ToolCall(call_id=f"call_{number}", name="search", arguments=ARGUMENTS)


@asynccontextmanager
async def endpoint_process(*arguments: str) -> AsyncGenerator[str]:
    """A scripted endpoint in its own process; yields the URL of its tool."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__).with_name("endpoint_process.py")), *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()
