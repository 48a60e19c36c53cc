"""What happens around answers: busy and killed processes, clients that hang up, a machine that is full."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import APIError, AsyncOpenAI, InternalServerError, OpenAI
from openai.types.chat import ChatCompletionChunk

from rft.chat.model_folder import read_model_folder
from rft.chat.opening import open_chat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout
from rft.core.spec import Budgets
from rft.platform.serving.giving_way import give_way_to_trainer
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import find_served
from rft.platform.serving.served_policy import ServedPolicy
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.run_eval import run_eval
from rft.rollouts.chat_policy import ChatSampling
from rft.rollouts.message_rollout import MessageSetup, run_message_rollout
from rft.rollouts.provider_policy import ProviderEndpoint, ProviderPolicy, open_provider_client
from rft.serving_wire.endpoint_file import read_endpoint
from rft.serving_wire.records import Choice, CompletionRequest, Event, Prompt, ServingEndpoint
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.samplers_gateways import FunctionTools
from tests.shared.customer_loop import converse, own_rollout
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.held_grader import HeldGrader
from tests.shared.scripted_engine import ANSWER, ENDLESS, SEARCHES, ScriptedEngine, script
from tests.shared.served_models import ServedPlatform, scripted_platform, serving_pid
from tests.shared.waiting import until


@pytest.fixture(scope="module")
def platform(
    emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory, base_model: Path
) -> Iterator[ServedPlatform]:
    with scripted_platform(emptied_database, tmp_path_factory.mktemp("home"), base_model) as running:
        yield running


def pid(platform: ServedPlatform) -> int:
    """Of the one serving process."""
    found = serving_pid(platform)
    assert found is not None
    return found


async def ask(client: AsyncOpenAI, text: str = "How much?", *, model: str = "tiny") -> str:
    done = await client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])
    return done.choices[0].message.content or ""


async def endless(client: AsyncOpenAI) -> tuple[Any, str]:
    """A stream that has told everything it ever will, and that."""
    stream = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": ENDLESS}], stream=True
    )
    told = ""
    while len(told) < len(ANSWER) - 1:
        chunk: ChatCompletionChunk = await anext(stream)
        told += chunk.choices[0].delta.content or ""
    return stream, told


async def test_a_killed_process_is_an_error_in_the_stream_and_the_next_request_works(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    stream, _ = await endless(client)
    before = pid(platform)
    os.kill(before, signal.SIGKILL)
    with pytest.raises(APIError) as raised:
        async for _ in stream:
            pass
    assert raised.value.code == "serving_lost"
    assert await ask(client) == ANSWER
    assert pid(platform) != before


async def test_a_file_of_a_process_from_before_a_restart_leads_nowhere_though_its_number_is_taken(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    assert await ask(client) == ANSWER
    (folder,) = [folder for folder in platform.api.settings.serving_dir.iterdir() if read_endpoint(folder)]
    os.kill(pid(platform), signal.SIGTERM)
    await until(lambda: serving_pid(platform) is None, "it ends")
    stale = ServingEndpoint(port=closed_port(), token="t", pid=os.getpid())
    (folder / "endpoint.json").write_text(stale.model_dump_json())
    assert await ask(client) == ANSWER
    assert read_endpoint(folder) != stale


def closed_port() -> int:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


async def test_a_client_that_hangs_up_frees_its_place(client: AsyncOpenAI) -> None:
    stream, _ = await endless(client)
    with pytest.raises(InternalServerError) as raised:
        await ask(client)
    assert raised.value.status_code == 503
    assert raised.value.code == "serving_busy"
    assert int(raised.value.response.headers["retry-after"]) >= 1
    await stream.close()
    await until(lambda: is_answered(client), "a free place")


async def test_a_client_that_waits_for_a_whole_reply_frees_its_place_too(client: AsyncOpenAI) -> None:
    waiting = asyncio.create_task(ask(client, ENDLESS))

    async def has_the_place() -> bool:
        nonlocal waiting
        if waiting.done():  # It was refused: our own look at the place took it.
            assert isinstance(waiting.exception(), InternalServerError)
            waiting = asyncio.create_task(ask(client, ENDLESS))
        return not await is_answered(client) and not waiting.done()

    await until(has_the_place, "the place is taken")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: is_answered(client), "a free place")


async def is_answered(client: AsyncOpenAI, model: str = "tiny") -> bool:
    """Whether there is room for a request; refused in any other way, the test fails."""
    try:
        return await ask(client, model=model) == ANSWER
    except InternalServerError as error:
        if error.code not in ("serving_busy", "serving_slots_in_use"):
            raise
        return False


async def test_another_model_waits_for_a_free_place_and_then_takes_it(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path
) -> None:
    (base_model.parent / "other").symlink_to(base_model)
    stream, _ = await endless(client)
    with pytest.raises(InternalServerError) as raised:
        await ask(client, model="other")
    assert (raised.value.status_code, raised.value.code) == (503, "serving_slots_in_use")
    await stream.close()
    await until(lambda: is_answered(client, "other"), "the other model's place")
    assert len([folder for folder in platform.api.settings.serving_dir.iterdir() if read_endpoint(folder)]) == 1
    await until(lambda: is_answered(client), "the first model's place")


async def test_a_process_ends_for_a_trainer_but_not_in_the_middle_of_an_answer(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path
) -> None:
    stream, _ = await endless(client)
    before = pid(platform)
    assert await give_way_to_trainer(platform.api.settings, base_model, free=1 << 50) == 0, "there is enough for both"
    assert await give_way_to_trainer(platform.api.settings, base_model, free=0) == 1
    with pytest.raises(InternalServerError) as raised:
        await ask(client)
    assert raised.value.code == "serving_busy", "it still answers the first one"
    assert pid(platform) == before
    await stream.close()
    await until(lambda: serving_pid(platform) is None, "it ends")
    assert await ask(client) == ANSWER
    assert pid(platform) != before


async def test_the_lease_goes_with_the_process(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    assert await ask(client) == ANSWER
    with psycopg.connect(platform.database_url, autocommit=True) as connection:

        def running() -> int:
            row = connection.execute("select count(*) from serving_processes where lease_owner is not null").fetchone()
            assert row is not None
            return row[0]

        assert running() == 1
        os.kill(pid(platform), signal.SIGTERM)
        await until(lambda: running() == 0, "the lease is given back")
    assert await ask(client) == ANSWER


async def test_tokens_are_counted_for_the_key(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    def counted(connection: psycopg.Connection) -> tuple[int, ...]:
        return connection.execute(
            "select coalesce(sum(requests), 0)::int, coalesce(sum(prompt_tokens), 0)::int,"
            " coalesce(sum(completion_tokens), 0)::int from served_tokens"
            " where model = 'tiny' and api_key_id in (select id from api_keys)"
        ).fetchall()[0]

    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        before = counted(connection)
        question: Any = [{"role": "user", "content": "How much?"}]
        done = await client.chat.completions.create(model="tiny", messages=question, n=2)
        assert done.usage is not None
        wanted = (before[0] + 1, before[1] + done.usage.prompt_tokens, before[2] + done.usage.completion_tokens)
        await until(lambda: counted(connection) == wanted, "the request is counted")


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


async def test_a_run_of_an_eval_asks_the_process_that_answers_chat_completions(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    assert await ask(client) == ANSWER
    before = pid(platform)
    exact: Any = {
        "type": "string_check",
        "name": "exact",
        "input": "{{sample.output_text}}",
        "reference": "{{item.answer}}",
        "operation": "eq",
    }
    eval_id, run_id = await ordered_run(client, exact, [{"answer": ANSWER}, {"answer": "8"}])
    async with Database(platform.database_url, max_connections=4) as database:
        assert await run_eval(run_id, worker_context(platform, database)) == "completed"
    done = await client.evals.runs.retrieve(run_id, eval_id=eval_id)
    assert (done.result_counts.passed, done.result_counts.failed, done.result_counts.errored) == (1, 1, 0)
    assert done.per_model_usage[0].run_model_name == "tiny"
    assert done.per_model_usage[0].completion_tokens > 0
    assert pid(platform) == before


async def ordered_run(client: AsyncOpenAI, criterion: Any, items: list[dict[str, str]]) -> tuple[str, str]:
    """Ids of an eval and its run."""
    config: Any = {"type": "custom", "item_schema": {"type": "object"}, "include_sample_schema": True}
    made = await client.evals.create(data_source_config=config, testing_criteria=[criterion])
    source: Any = {
        "type": "completions",
        "model": "tiny",
        "source": {"type": "file_content", "content": [{"item": item} for item in items]},
        "input_messages": {"type": "template", "template": [{"role": "user", "content": "How much?"}]},
    }
    return made.id, (await client.evals.runs.create(made.id, data_source=source)).id


def worker_context(
    platform: ServedPlatform, database: Database, is_stopping: Callable[[], bool] = lambda: False
) -> WorkerContext:
    settings = platform.api.settings
    return WorkerContext(
        settings=settings,
        database=database,
        file_store=LocalFileStore(settings.files_dir),
        secret_box=SecretBox.at(settings.home),
        is_stopping=is_stopping,
        enqueuer=platform.api.messages,
    )


@pytest.mark.parametrize("worker_stops", [False, True])
async def test_a_run_of_an_eval_ends_and_its_process_answers_the_apis_user_to_the_end_unless_the_worker_stops(
    worker_stops: bool, platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    if serving_pid(platform) is not None:
        os.kill(pid(platform), signal.SIGTERM)
        await until(lambda: serving_pid(platform) is None, "the run starts the process")
    endpoint, stopping = HeldGrader(), list[bool]()
    async with (
        LoopbackEndpoint(endpoint) as customer,
        Database(platform.database_url, max_connections=4) as database,
    ):
        judge = {"type": "endpoint", "name": "judge", "url": customer.grader_url}
        eval_id, run_id = await ordered_run(client, judge, [{"answer": ANSWER}])
        endpoint.hold()
        running = asyncio.create_task(
            run_eval(run_id, worker_context(platform, database, is_stopping=lambda: bool(stopping)))
        )
        await endpoint.is_asked.wait()
        stream, _ = await endless(client)
        answering = pid(platform)
        endpoint.let_go()

        async def is_completed() -> bool:
            return (await client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "completed"

        await until(is_completed, "the run waits for nobody else's answer")
        with pytest.raises(InternalServerError) as raised:
            await ask(client)
        assert (raised.value.code, pid(platform)) == ("serving_busy", answering), "it still answers"
        assert not running.done(), "whoever started the process keeps it"
        if worker_stops:
            stopping.append(True)
            with pytest.raises(APIError) as lost:
                async for _ in stream:
                    pass
            assert lost.value.code == "serving_lost"
        else:
            await stream.close()
        assert await asyncio.wait_for(running, 60) == "completed"
    await until(lambda: serving_pid(platform) is None, "it has ended")
    assert await ask(client) == ANSWER
