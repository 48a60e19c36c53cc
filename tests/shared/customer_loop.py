"""A customer's agent loop: the official SDK, tools in their own code, messages sent back as they came."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from rft.chat.template_format import TemplateChatFormat
from rft.core.dataset import DatasetRow
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout, RolloutKey, Split
from rft.core.spec import Budgets
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import Sampler
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools

CallTool = Callable[[str, str], str]
"""Name and arguments in, output out."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the customer's loop allows one conversation; the same as a rollout's budgets of these names."""

    turns: int = 100
    calls: int = 50
    tokens: int | None = None
    """Sampled ones, of all turns."""


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Conversed:
    """One conversation that has ended."""

    token_ids: list[int]
    """All of it."""
    answer: str
    calls: int
    rendered_again: int
    """Requests of which nothing was remembered, but for the first."""


def converse(
    client: OpenAI, model: str, item: dict[str, Any], call_tool: CallTool, limits: Limits = NO_LIMITS
) -> Conversed:
    """Greedy, until the model calls nothing more, or its context is full, or a limit is reached."""
    messages, calls, rendered_again = list[Any](item["messages"]), 0, 0
    done = _ask(client, model, messages, item, limits.tokens)
    spent, is_last = _tokens(done), False
    for _ in range(limits.turns - 1):
        said = done.choices[0].message
        left = None if limits.tokens is None else limits.tokens - spent
        if not said.tool_calls or done.choices[0].finish_reason == "length" or is_last or left == 0:
            break
        messages.append(_as_sent_back(said))
        for call in said.tool_calls:
            assert call.type == "function"
            is_last = calls >= limits.calls
            calls += 1
            function = call.function
            output = _used_up(limits.calls) if is_last else call_tool(function.name, function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
        try:
            done = _ask(client, model, messages, item, left)
        except BadRequestError as refusal:
            if refusal.code != "context_length_exceeded":
                raise
            break
        spent += _tokens(done)
        assert done.usage is not None
        assert done.usage.prompt_tokens_details is not None
        rendered_again += not done.usage.prompt_tokens_details.cached_tokens
    extra, choice = done.model_extra, done.choices[0].model_extra
    assert extra is not None
    assert choice is not None
    ids = [*extra["prompt_token_ids"], *choice["token_ids"]]
    return Conversed(ids, done.choices[0].message.content or "", calls, rendered_again)


def _used_up(calls: int) -> str:
    return f"Error: tool call budget used up ({calls} calls). This call was not made. Answer now without tools."


def _tokens(done: ChatCompletion) -> int:
    assert done.usage is not None
    return done.usage.completion_tokens


def _ask(client: OpenAI, model: str, messages: list[Any], item: dict[str, Any], at_most: int | None) -> ChatCompletion:
    wanted: Any = {"tools": item["tools"], "temperature": 0, "extra_body": {"return_token_ids": True}}
    if at_most is not None:
        wanted["max_completion_tokens"] = at_most
    return client.chat.completions.create(model=model, messages=messages, **wanted)


def _as_sent_back(said: ChatCompletionMessage) -> dict[str, Any]:
    """Through JSON, as programs keep messages."""
    return json.loads(said.to_json())


async def own_rollout(
    row: DatasetRow, sampler: Sampler, chat_format: TemplateChatFormat, call_tool: CallTool, *, max_tokens: int
) -> Rollout:
    """The platform's, greedy, on the same row with the same tools."""

    async def tool(call: ToolCall, trace_id: str) -> str:
        del trace_id
        return call_tool(call.name, call.arguments)

    async def grade(trace: FinishedTrace, trace_id: str) -> float:
        del trace, trace_id
        return 1.0

    setup = RolloutSetup(
        sampler=sampler,
        chat_format=chat_format,
        tools=FunctionTools(tool),
        grader=FunctionGrader(grade),
        grader_name="grader",
        budgets=Budgets(max_tokens=max_tokens),
        temperature=0.0,
        model_name="m",
        clock=monotonic,
    )
    key = RolloutKey(job_id="job", job_seed=1, split=Split.VALID, step=1, epoch=0, row_index=row.index, index=0)
    return await run_rollout(row, key, setup)
