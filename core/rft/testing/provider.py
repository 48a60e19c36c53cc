"""A provider of models: an OpenAI-compatible chat-completions server with scripted turns. An ASGI application.

For a real socket, see `rft.testing.loopback`.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.messages import ToolCall
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultPlan, HttpAnswer, ReceivedCall

CHAT_PATH, MODELS_PATH = "/v1/chat/completions", "/v1/models"

Said: TypeAlias = str | Sequence[ToolCall] | JsonObject | HttpAnswer
"""An answer, calls of tools, a choice as it stands, or a whole reply."""
Script: TypeAlias = Callable[[JsonObject], Said]
"""From the request's body to a turn."""


class ScriptedProvider(ScriptedEndpoint):
    """Says what the script says, or the turns of a list by the number of the assistant's turns in the conversation."""

    def __init__(
        self,
        script: Script | Sequence[Said],
        *,
        models: Sequence[str] = ("small",),
        api_key: str | None = None,
        faults: FaultPlan | None = None,
        latency_s: float | Callable[[int], float] = 0.0,
    ) -> None:
        super().__init__(faults=faults, latency_s=latency_s)
        self._script = script if callable(script) else _by_turn(script)
        self.models, self._api_key = tuple(models), api_key

    @property
    def requests(self) -> list[JsonObject]:
        """Bodies of all chat calls so far."""
        return [json.loads(call.body) for call in self.calls if call.body]

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """The call's reply, or the fault that takes its place."""
        fault = self.faults.next(call)
        delay_s = self.latency_s(call.in_flight) if callable(self.latency_s) else self.latency_s
        if delay_s:
            await asyncio.sleep(delay_s)
        if fault is not None:
            return fault
        if self._api_key is not None and call.headers.get("authorization") != f"Bearer {self._api_key}":
            # As the original does: with a part of the key that was sent.
            return provider_error(401, f"Incorrect API key provided: {call.headers.get('authorization', '')}")
        if call.path == MODELS_PATH:
            models: list[JsonValue] = [{"id": name, "object": "model"} for name in self.models]
            return _json(200, {"object": "list", "data": models})
        if call.path != CHAT_PATH or not call.body:
            return provider_error(404, "nothing here")
        body = json.loads(call.body)
        if body.get("model") not in self.models:
            return provider_error(404, f"The model `{body.get('model')}` does not exist", code="model_not_found")
        said = self._script(body)
        return said if isinstance(said, HttpAnswer) else _json(200, completion(body, said))


def completion(body: Mapping[str, JsonValue], said: str | Sequence[ToolCall] | JsonObject) -> JsonObject:
    """The whole completion with this turn."""
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": f"{body.get('model')}-2026",
        "choices": [_choice(said)],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
    }


def provider_error(status: int, message: str, *, code: str | None = None, param: str | None = None) -> HttpAnswer:
    """A refusal in OpenAI's envelope."""
    error: JsonObject = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return _json(status, {"error": error})


def _choice(said: str | Sequence[ToolCall] | JsonObject) -> JsonObject:
    match said:
        case dict():
            return said
        case str():
            return {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        case _:
            calls: list[JsonValue] = [
                {
                    "id": call.call_id or f"toolu_{position}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for position, call in enumerate(said)
            ]
            message: JsonObject = {"role": "assistant", "content": None, "tool_calls": calls}
            return {"index": 0, "finish_reason": "tool_calls", "message": message}


def _by_turn(turns: Sequence[Said]) -> Script:
    def say(body: JsonObject) -> Said:
        messages = body["messages"]
        assert isinstance(messages, list)
        return turns[sum(isinstance(message, dict) and message.get("role") == "assistant" for message in messages)]

    return say


def _json(status: int, body: JsonObject) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(body).encode())
