"""A platform with its API, its worker's context and the official SDK; evals and their items."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI

from rft.platform.worker.context import WorkerContext
from tests.shared.running_api import ReceivedMessages

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

    async def make(self, *criteria: Any, config: Any = CUSTOM) -> str:
        """The id of a new eval."""
        made = await self.client.evals.create(data_source_config=config, testing_criteria=list(criteria or (EXACT,)))
        return made.id
