"""Conversations with calls: the SDK's, a worker's and a provider's have the token ids of a rollout."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, OpenAI

from rft.chat.model_folder import read_model_folder
from rft.chat.opening import open_chat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout
from rft.core.spec import Budgets
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import find_served
from rft.platform.serving.served_policy import ServedPolicy
from rft.platform.store.database import Database
from rft.platform.store.unit_of_work import unit_of_work
from rft.rollouts.chat_policy import ChatSampling
from rft.rollouts.message_rollout import MessageSetup, run_message_rollout
from rft.rollouts.provider_policy import ProviderEndpoint, ProviderPolicy, open_provider_client
from rft.serving_wire.records import Choice, CompletionRequest, Event, Prompt
from rft.testing.samplers_gateways import FunctionTools
from tests.integration.serving.scripted.asking import ask, pid
from tests.shared.customer_loop import converse, own_rollout
from tests.shared.scripted_engine import ANSWER, SEARCHES, ScriptedEngine, script
from tests.shared.served_models import ServedPlatform


async def test_a_tool_loop_with_the_sdk_has_the_token_ids_of_a_rollout(
    platform: ServedPlatform, base_model: Path
) -> None:
    """Two calls in one turn, one that cannot be read beside one that can."""
    row, item = searching_row()
    own = await rollout_of_tokens(row, base_model)
    with OpenAI(base_url=f"{platform.api.url}/v1", api_key=platform.api.key, max_retries=0) as client:
        conversed = await asyncio.to_thread(converse, client, "tiny", item, answer)
    assert conversed.token_ids == own.trace.token_ids
    assert (conversed.answer, conversed.calls, conversed.rendered_again) == (ANSWER, 3, 0)


async def test_a_rollout_of_messages_from_another_process_has_the_token_ids_of_a_rollout(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path
) -> None:
    """As a worker runs it, over the process that the API has started."""
    assert await ask(client) == ANSWER
    before, (row, _) = pid(platform), searching_row()
    own, settings, told = await rollout_of_tokens(row, base_model), platform.api.settings, list[Event]()

    async def tool(call: ToolCall, trace_id: str) -> str:
        return answer(call.name, call.arguments)

    async with Database(platform.database_url, max_connections=2) as database:
        processes = ServingProcesses(settings, database)
        async with unit_of_work(database) as uow:
            model = await find_served(uow, settings, "tiny")
        policy = ServedPolicy.open("tiny", model, processes, max_concurrency=1)

        async def overheard(request: CompletionRequest) -> AsyncGenerator[Event]:
            async for event in policy.tell(request):
                told.append(event)
                yield event

        setup = MessageSetup(
            policy=replace(policy, tell=overheard),
            tools=FunctionTools(tool),
            grader=None,
            grader_name="grader",
            budgets=Budgets(max_tokens=1000),
            model_name="tiny",
            sampling=ChatSampling(temperature=0.0, seed=1),
        )
        rollout = await run_message_rollout(row, setup)
        await processes.aclose()
    prompts = [event for event in told if isinstance(event, Prompt)]
    choices = [event for event in told if isinstance(event, Choice)]
    assert [*prompts[-1].token_ids, *choices[-1].token_ids] == own.trace.token_ids
    assert [prompt.is_rendered_again for prompt in prompts] == [False] * len(own.trace.turns)
    assert (rollout.messages[-1].content, rollout.tool_calls) == (ANSWER, 3)
    assert rollout.usage.completion_tokens == own.trace.sampled_tokens
    assert pid(platform) == before


async def test_a_platform_is_a_provider_too(platform: ServedPlatform, base_model: Path) -> None:
    """What is sent to providers is chat completions as a server reads them that refuses what it does not know."""
    row, _ = searching_row()
    own = await rollout_of_tokens(row, base_model)

    async def tool(call: ToolCall, trace_id: str) -> str:
        return answer(call.name, call.arguments)

    endpoint = ProviderEndpoint(name="self", base_url=f"{platform.api.url}/v1", api_key=platform.api.key)
    async with open_provider_client(platform.api.settings.egress) as connections:
        setup = MessageSetup(
            policy=ProviderPolicy(connections, endpoint, "tiny"),
            tools=FunctionTools(tool),
            grader=None,
            grader_name="grader",
            budgets=Budgets(max_tokens=1000),
            model_name="self/tiny",
            sampling=ChatSampling(temperature=0.0, seed=1),
        )
        rollout = await run_message_rollout(row, setup)
    assert rollout.outcome is None, rollout.outcome
    assert (rollout.messages[-1].content, rollout.tool_calls) == (ANSWER, 3)
    assert rollout.usage.completion_tokens == own.trace.sampled_tokens
    assert rollout.usage.cached_tokens > 0, "its turns are remembered by the ids of its calls"


def searching_row() -> tuple[DatasetRow, dict[str, Any]]:
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "search", "parameters": parameters}}
    item = {"messages": [{"role": "user", "content": f"{SEARCHES}."}], "tools": [tool]}
    row = parse_row(json.dumps(item), line_number=1, index=0)
    assert isinstance(row, DatasetRow)
    return row, item


async def rollout_of_tokens(row: DatasetRow, base_model: Path) -> Rollout:
    chat_format = open_chat(read_model_folder(base_model)).chat_format
    engine = ScriptedEngine(chat_format.tokenizer, lambda _, prompt: script(prompt))
    return await own_rollout(row, engine, chat_format, answer, max_tokens=1000)


def answer(name: str, arguments: str) -> str:
    return f"{name} found {json.loads(arguments)['query']}"


async def test_calls_come_in_a_stream_whole_and_text_before_them(client: AsyncOpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    stream = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": SEARCHES}], tools=[tool], stream=True
    )
    told, calls, reasons = "", list[Any](), list[Any]()
    async for chunk in stream:
        told += chunk.choices[0].delta.content or ""
        calls += chunk.choices[0].delta.tool_calls or []
        reasons.append(chunk.choices[0].finish_reason)
    assert told == "I look."
    assert [(call.index, call.function.arguments) for call in calls] == [
        (0, '{"query":   "one"}'),
        (1, '{"query":   "two"}'),
    ]
    assert len({call.id for call in calls}) == 2
    assert reasons[-1] == "tool_calls"
    assert set(reasons[:-1]) == {None}


async def test_without_parallel_calls_the_first_one_is_handed_out(client: AsyncOpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    question: Any = [{"role": "user", "content": SEARCHES}]
    done = await client.chat.completions.create(
        model="tiny", messages=question, tools=[tool], parallel_tool_calls=False
    )
    calls: Any = done.choices[0].message.tool_calls
    assert [call.function.arguments for call in calls] == ['{"query":   "one"}']
    assert done.choices[0].finish_reason == "tool_calls"
    none = await client.chat.completions.create(model="tiny", messages=question, tools=[tool], tool_choice="none")
    assert (none.choices[0].message.content, none.choices[0].message.tool_calls) == ("I look.", None)
    assert none.choices[0].finish_reason == "stop"
