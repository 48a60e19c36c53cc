"""`POST /v1/responses` with the official SDK: agent loops with the token ids of a rollout, streams, refusals."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from openai import APIError, AsyncOpenAI, BadRequestError, InternalServerError, NotFoundError, OpenAI

from rft.chat.model_folder import read_model_folder
from rft.chat.opening import open_chat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.rollout import Rollout
from tests.shared.customer_loop import own_rollout
from tests.shared.responses_loop import ResponsesLoop, cached_tokens, token_ids
from tests.shared.scripted_engine import ANSWER, ENDLESS, SEARCHES, THINKS, ScriptedEngine, script
from tests.shared.served_models import ServedPlatform, serving_pid
from tests.shared.waiting import until

SEALED: Any = {"store": False, "include": ["reasoning.encrypted_content"]}
PARAMETERS: Any = {"type": "object", "properties": {"query": {"type": "string"}}}
TOOL: Any = {"type": "function", "name": "search", "description": "Looks.", "parameters": PARAMETERS, "strict": True}
ITEM: Any = {
    "messages": [{"role": "user", "content": f"{SEARCHES}. {THINKS}."}],
    "tools": [{"type": "function", "function": {key: TOOL[key] for key in ("name", "description", "parameters")}}],
}
_ENDED = ("response.completed", "response.incomplete", "response.failed")


@pytest.fixture
def sync(platform: ServedPlatform) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{platform.api.url}/v1", api_key=platform.api.key, max_retries=0) as client:
        yield client


def answer(name: str, arguments: str) -> str:
    return f"{name} found {json.loads(arguments)['query']}"


def kill(platform: ServedPlatform) -> None:
    """The serving process, where there still is one."""
    pid = serving_pid(platform)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def own(base_model: Path) -> Rollout:
    """The platform's, of the same row."""
    row = parse_row(json.dumps(ITEM), line_number=1, index=0)
    assert isinstance(row, DatasetRow)
    chat_format = open_chat(read_model_folder(base_model)).chat_format
    engine = ScriptedEngine(chat_format.tokenizer, lambda _, prompt: script(prompt))
    return asyncio.run(own_rollout(row, engine, chat_format, answer, max_tokens=1000))


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_stateless_loop_has_the_token_ids_of_a_rollout(
    platform: ServedPlatform, sync: OpenAI, base_model: Path, is_streamed: bool
) -> None:
    """Thoughts, two calls in one turn, one that cannot be read beside one that can; and the process is killed after
    every turn, so that all that is known of a conversation is what the client sends."""

    def kill_first(name: str, arguments: str) -> str:
        kill(platform)
        return answer(name, arguments)

    rollout = own(base_model)
    loop = ResponsesLoop("tiny", ITEM, is_streamed=is_streamed)
    first, second, last = loop.run(sync, kill_first)
    assert token_ids(last) == rollout.trace.token_ids
    assert [item.type for item in first.output] == ["reasoning", "message", "function_call", "function_call"]
    assert [item.type for item in second.output] == ["reasoning", "function_call"]
    assert (last.output_text, last.status) == (ANSWER, "completed")
    assert [response.input_transformations for response in loop.responses] == [None, None, None]
    assert cached_tokens(first) == 0 < cached_tokens(second) < cached_tokens(last)


def test_without_sealed_turns_the_process_remembers_and_then_renders_and_counts(
    platform: ServedPlatform, sync: OpenAI, base_model: Path
) -> None:
    rollout = own(base_model)
    remembered = ResponsesLoop("tiny", ITEM, {"temperature": 0}).run(sync, answer)
    assert token_ids(remembered[-1]) == rollout.trace.token_ids
    assert remembered[0].output[0].type == "reasoning"
    assert remembered[0].output[0].encrypted_content is None

    def kill_first(name: str, arguments: str) -> str:
        kill(platform)
        return answer(name, arguments)

    before = rendered_again(platform)
    rendered = ResponsesLoop("tiny", ITEM, {"temperature": 0}).run(sync, kill_first)
    assert [cached_tokens(response) for response in rendered] == [0, 0, 0]
    assert token_ids(rendered[-1]) != rollout.trace.token_ids
    asyncio.run(until(lambda: rendered_again(platform) == before + 2, "both are counted"))


def rendered_again(platform: ServedPlatform) -> int:
    with psycopg.connect(platform.database_url) as connection:
        row = connection.execute("select coalesce(sum(rendered_again), 0)::int from served_tokens").fetchone()
    assert row is not None
    return row[0]


def test_a_changed_conversation_is_told(sync: OpenAI) -> None:
    first = sync.responses.create(model="tiny", input=ITEM["messages"], tools=[TOOL], **SEALED)
    items = [json.loads(item.to_json()) for item in first.output]
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": call_id, "output": "7"} for call_id in calls]
    changed: Any = [{"role": "user", "content": f"{SEARCHES} {THINKS}"}, *items, *results]
    second: Any = sync.responses.create(model="tiny", input=changed, tools=[TOOL], **SEALED)
    (told,) = second.input_transformations
    assert (told.id, told.action, told.reason) == (items[0]["id"], "removed", "prefix_mismatch")
    assert cached_tokens(second) == 0
    further: Any = [*ITEM["messages"], *items, *results, {"role": "user", "content": "And now?"}]
    third: Any = sync.responses.create(model="tiny", input=further, tools=[TOOL], **SEALED)
    assert [told.reason for told in third.input_transformations] == ["turn_boundary"]


def test_a_reply_is_what_the_sdk_types(sync: OpenAI) -> None:
    response = sync.responses.create(
        model="tiny",
        instructions="Be brief.",
        input=f"{THINKS}.",
        tools=[TOOL],
        metadata={"team": "a"},
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "text"}},
        extra_body={"return_token_ids": True},
    )
    assert response.to_dict(mode="json").keys() >= {"error", "incomplete_details", "usage", "store", "truncation"}
    assert (response.object, response.status, response.model) == ("response", "completed", "tiny")
    assert (response.instructions, response.metadata) == ("Be brief.", {"team": "a"})
    reasoning, message = response.output
    assert reasoning.type == "reasoning"
    assert reasoning.content is not None
    assert reasoning.content[0].text == "So be it."
    assert message.type == "message"
    assert response.output_text == ANSWER
    assert response.usage is not None
    extra = response.model_extra
    assert extra is not None
    assert response.usage.input_tokens == len(extra["prompt_token_ids"])
    assert response.usage.output_tokens == len(extra["token_ids"])
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert 0 < response.usage.output_tokens_details.reasoning_tokens < response.usage.output_tokens
    assert response.tools[0].type == "function"


async def test_a_stream_tells_every_event_in_its_order(client: AsyncOpenAI) -> None:
    wanted: Any = {"model": "tiny", "input": ITEM["messages"], "tools": [TOOL], "temperature": 0, **SEALED}
    kinds, numbers, deltas, done = list[str](), list[int](), dict[str, str](), list[Any]()
    final: Any = None
    stream: Any = await client.responses.create(stream=True, **wanted)
    async for event in stream:
        kinds.append(event.type.removeprefix("response."))
        numbers.append(event.sequence_number)
        if event.type.endswith(".delta"):
            deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
        if event.type == "response.output_item.done":
            done.append(event.item)
        if event.type in _ENDED:
            final = event.response
    assert numbers == list(range(len(numbers)))
    assert [kind for i, kind in enumerate(kinds) if kinds[i - 1 : i] != [kind]] == [
        "created", "in_progress", "output_item.added",
        "content_part.added", "output_text.delta",
        "content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done",
        "output_text.done", "content_part.done", "output_item.done",
        *["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"] * 2,
        "completed",
    ]  # fmt: skip
    assert kinds.count("output_text.delta") > 3, "its text came in parts"
    reasoning, message, *calls = final.output
    assert [item.to_dict() for item in done] == [item.to_dict() for item in final.output]
    assert deltas[reasoning.id] == reasoning.content[0].text == "So be it."
    assert deltas[message.id] == message.content[0].text == "I look."
    assert [deltas[call.id] for call in calls] == [call.arguments for call in calls]
    whole = await client.responses.create(**wanted)
    assert [item.type for item in whole.output] == [item.type for item in final.output]
    assert whole.usage == final.usage


async def test_an_asynchronous_loop_over_streams_has_the_same_tokens(client: AsyncOpenAI, sync: OpenAI) -> None:
    """Each call is answered before the next one is sent back, as some loops do."""
    items, responses = list[Any](ITEM["messages"]), list[Any]()
    extra: Any = {"temperature": 0, "extra_body": {"return_token_ids": True}, **SEALED}
    while not responses or any(item.type == "function_call" for item in responses[-1].output):
        async with client.responses.stream(model="tiny", input=items, tools=[TOOL], **extra) as stream:
            responses.append(await stream.get_final_response())
        for item in responses[-1].output:
            items.append(json.loads(item.to_json()))
            if item.type == "function_call":
                found = answer(item.name, item.arguments)
                items.append({"type": "function_call_output", "call_id": item.call_id, "output": found})
    loop = await asyncio.to_thread(ResponsesLoop("tiny", ITEM).run, sync, answer)
    assert [token_ids(response) for response in responses] == [token_ids(response) for response in loop]


async def test_a_schema_that_cannot_be_kept_is_refused(client: AsyncOpenAI) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "answer", "schema": {"not": {}}}}
    with pytest.raises(BadRequestError, match="cannot be kept") as raised:
        await client.responses.create(model="tiny", input="How much?", text=text)
    assert raised.value.param == "text.format"


async def test_an_answer_that_is_cut_is_incomplete(client: AsyncOpenAI) -> None:
    wanted: Any = {"model": "tiny", "input": "How much?", "max_output_tokens": 3}
    whole = await client.responses.create(**wanted)
    assert whole.status == "incomplete"
    assert whole.incomplete_details is not None
    assert whole.incomplete_details.reason == "max_output_tokens"
    stream: Any = await client.responses.create(stream=True, **wanted)
    events = [event async for event in stream]
    last = events[-1]
    assert last.type == "response.incomplete"
    assert last.response.output_text == whole.output_text != ""
    assert last.response.output[0].type == "message"
    assert last.response.output[0].status == "incomplete"


async def test_a_killed_process_is_told_at_once_and_the_next_request_works(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    stream: Any = await client.responses.create(model="tiny", input=ENDLESS, stream=True)
    told, after = "", list[Any]()
    while len(told) < len(ANSWER) - 1:
        event = await anext(stream)
        told += event.delta if event.type == "response.output_text.delta" else ""
    kill(platform)
    killed_at = monotonic()
    with pytest.raises(APIError) as raised:
        await collect(stream, after)
    assert monotonic() - killed_at < 120, "at once, and not when something runs out"
    assert raised.value.code == "serving_lost"
    assert after[-1].type == "response.failed"
    failed = after[-1].response
    assert failed.error is not None
    assert (failed.status, failed.error.code) == ("failed", "server_error")
    assert (await client.responses.create(model="tiny", input="How much?")).output_text == ANSWER


async def collect(stream: Any, events: list[Any]) -> None:
    async for event in stream:
        events.append(event)


async def test_a_busy_process_is_refused_with_its_status(client: AsyncOpenAI) -> None:
    stream: Any = await client.responses.create(model="tiny", input=ENDLESS, stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    with pytest.raises(InternalServerError) as raised:
        await client.responses.create(model="tiny", input="How much?")
    assert (raised.value.status_code, raised.value.code) == (503, "serving_busy")
    assert int(raised.value.response.headers["retry-after"]) >= 1
    await stream.close()

    async def is_answered() -> bool:
        try:
            return (await client.responses.create(model="tiny", input="How much?")).output_text == ANSWER
        except InternalServerError:
            return False

    await until(is_answered, "a free place")


QUESTION: Any = [{"role": "user", "content": "How much?"}]


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"input": []}, "input", "invalid_value"),
        ({"input": "word " * 9000}, "input", "context_length_exceeded"),
        ({"input": [*QUESTION, {"type": "function_call_output", "call_id": "call_1", "output": "7"}]},
         "input[1].call_id", None),
        ({"input": [*QUESTION, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo"}]},
         "input[1].encrypted_content", "invalid_encrypted_content"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", None),
        ({"tools": [{**TOOL, "parameters": {"type": "strange"}}]}, "tools[0].parameters", None),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", None),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "nothing"}}, "tool_choice", None),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search_preview"}}, "tool_choice", None),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "f"}]}},
         "tool_choice", None),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": {}}]}},
         "tool_choice", None),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": 7}}}, "text.format", None),
        ({"previous_response_id": "resp_1"}, "previous_response_id", None),
        ({"conversation": "conv_1"}, "conversation", None),
        ({"background": True}, "background", None),
        ({"store": True}, "store", None),
        ({"truncation": "auto"}, "truncation", None),
        ({"include": ["message.output_text.logprobs"]}, "include[0]", None),
        ({"reasoning": {"effort": "much"}}, "reasoning.effort", None),
        ({"temperature": 3}, "temperature", None),
        ({"max_output_tokens": 0}, "max_output_tokens", None),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_names_its_field(
    client: AsyncOpenAI, changes: dict[str, Any], param: str, code: str | None
) -> None:
    wanted: Any = {"model": "tiny", "input": QUESTION, **changes}
    with pytest.raises(BadRequestError) as raised:
        await client.responses.create(**wanted)
    assert (raised.value.param, raised.value.code) == (param, code or "invalid_value")


async def test_a_model_that_is_none_or_no_longer_kept_is_not_found(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    for name in ("gpt-5", platform.checkpoint(4)):
        for stream in (False, True):
            with pytest.raises(NotFoundError) as raised:
                await client.responses.create(model=name, input="How much?", stream=stream)
            assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


async def test_tools_that_may_not_be_called_are_not_shown(client: AsyncOpenAI) -> None:
    wanted: Any = {"model": "tiny", "input": ITEM["messages"], "tools": [TOOL], "temperature": 0}
    none = await client.responses.create(tool_choice="none", **wanted)
    assert [item.type for item in none.output] == ["reasoning", "message"]
    allowed: Any = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "search"}]}
    one = await client.responses.create(tool_choice=allowed, parallel_tool_calls=False, **wanted)
    assert [item.type for item in one.output] == ["reasoning", "message", "function_call"]
    for forced in ("required", {"type": "function", "name": "search"}, {**allowed, "mode": "required"}):
        choice: Any = forced
        called = await client.responses.create(tool_choice=choice, **wanted)
        assert [item.type for item in called.output] == ["reasoning", "message", *["function_call"] * 2]
        assert called.tool_choice == forced or called.model_dump()["tool_choice"] == forced
