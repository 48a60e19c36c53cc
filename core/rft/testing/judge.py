"""A judge model behind an OpenAI-compatible chat-completions server, with scripted answers. An ASGI application."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultPlan, HttpAnswer, ReceivedCall

COMPLETIONS_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of the judge."""

    text: str | None
    finish_reason: str = "stop"
    refusal: str | None = None
    prompt_tokens: int = 100
    completion_tokens: int = 20
    cached_tokens: int = 0


Judgement: TypeAlias = str | Completion
Script: TypeAlias = Callable[[JsonObject], Judgement]
"""From the request's body to an answer."""


class ScriptedJudge(ScriptedEndpoint):
    """Answers with what the script says, with one text always, or with the texts of a list in turn."""

    def __init__(
        self,
        script: Script | Judgement | Sequence[Judgement],
        *,
        takes_schema: bool = True,
        context_chars: int | None = None,
        api_key: str | None = None,
        faults: FaultPlan | None = None,
        latency_s: float | Callable[[int], float] = 0.0,
    ) -> None:
        super().__init__(faults=faults, latency_s=latency_s)
        self._script = _script(script)
        self._takes_schema, self._context_chars, self._api_key = takes_schema, context_chars, api_key

    def says(self, script: Script | Judgement | Sequence[Judgement]) -> None:
        """Answer with this from now on."""
        self._script = _script(script)

    @property
    def requests(self) -> list[JsonObject]:
        """Bodies of all calls so far."""
        return [json.loads(call.body) for call in self.calls if call.body]

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """The call's reply, or the fault that takes its place."""
        fault = self.faults.next(call)
        delay_s = self.latency_s(call.in_flight) if callable(self.latency_s) else self.latency_s
        if delay_s:
            await asyncio.sleep(delay_s)
        if fault is not None:
            return fault
        if not call.body:
            return _error(405, "POST only")
        if call.path != COMPLETIONS_PATH:
            return _error(404, "nothing here")
        if self._api_key is not None and call.headers.get("authorization") != f"Bearer {self._api_key}":
            return _error(401, "Incorrect API key provided")
        body = json.loads(call.body)
        if not self._takes_schema and "response_format" in body:
            return _error(400, "response_format is not supported")
        chars = sum(len(message["content"]) for message in body["messages"])
        if self._context_chars is not None and chars > self._context_chars:
            message = f"This model's maximum context length is {self._context_chars} tokens, and yours are {chars}."
            return _error(400, message, code="context_length_exceeded")
        return HttpAnswer(200, json.dumps(_completion(body, self._script(body))).encode())


def _script(said: Script | Judgement | Sequence[Judgement]) -> Script:
    if callable(said):
        return said
    left = [said] if isinstance(said, str | Completion) else list(said)
    return lambda body: left.pop(0) if len(left) > 1 else left[0]


def _completion(body: Mapping[str, JsonValue], said: Judgement) -> JsonObject:
    answer = Completion(said) if isinstance(said, str) else said
    return {
        "id": "chatcmpl-judge",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model"),
        "choices": [
            {
                "index": 0,
                "finish_reason": answer.finish_reason,
                "message": {"role": "assistant", "content": answer.text, "refusal": answer.refusal},
            }
        ],
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "total_tokens": answer.prompt_tokens + answer.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        },
    }


def _error(status: int, message: str, *, code: str | None = None) -> HttpAnswer:
    error = {"message": message, "type": "invalid_request_error", "code": code}
    return HttpAnswer(status, json.dumps({"error": error}).encode())
