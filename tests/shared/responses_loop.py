"""A customer's agent loop over the Responses API, as published notebooks have it: output items go back as they came."""

import json
from dataclasses import dataclass, field
from typing import Any

from openai import OpenAI
from openai.types.responses import Response

from tests.shared.customer_loop import CallTool


@dataclass(slots=True)
class ResponsesLoop:
    """One conversation; stateless by default."""

    model: str
    item: dict[str, Any]
    """Of the dataset."""
    options: dict[str, Any] = field(
        default_factory=lambda: {"store": False, "include": ["reasoning.encrypted_content"], "temperature": 0}
    )
    is_streamed: bool = False
    responses: list[Response] = field(default_factory=list[Response])

    def run(self, client: OpenAI, call_tool: CallTool, *, most_turns: int = 20) -> list[Response]:
        """Until the model calls nothing more."""
        items = list(self.item["messages"])
        for _ in range(most_turns):
            response = self._ask(client, items)
            self.responses.append(response)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            items += [json.loads(item.to_json()) for item in response.output]
            items += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": call_tool(call.name, call.arguments),
                }
                for call in calls
            ]
        return self.responses

    def _ask(self, client: OpenAI, items: list[Any]) -> Response:
        tools: Any = [{"type": "function", **tool["function"]} for tool in self.item["tools"]]
        wanted: Any = {
            "model": self.model,
            "input": items,
            "tools": tools,
            "extra_body": {"return_token_ids": True},
            **self.options,
        }
        if not self.is_streamed:
            return client.responses.create(**wanted)
        with client.responses.stream(**wanted) as stream:
            return stream.get_final_response()


def token_ids(response: Response) -> list[int]:
    """All of a conversation, up to the end of a response."""
    extra = response.model_extra
    assert extra is not None
    return [*extra["prompt_token_ids"], *extra["token_ids"]]


def cached_tokens(response: Response) -> int:
    """Of its input, those that were taken as they were sampled."""
    assert response.usage is not None
    return response.usage.input_tokens_details.cached_tokens
