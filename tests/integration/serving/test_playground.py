"""Talking to a model of a job: its own tools are called as in a rollout, and everything is told."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from openai import APITimeoutError, AsyncOpenAI, BadRequestError, NotFoundError
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.spec import RunSecrets, RunSpec
from rft.rollouts.connections import CustomerConnections, open_tool_connections
from rft.rollouts.message_rollout import MessageRollout, MessageSetup, run_message_rollout
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.running_api import EXACT, upload
from tests.shared.scripted_engine import ANSWER, ENDLESS, SEARCHES, THINKS
from tests.shared.served_models import ServedPlatform, scripted_platform
from tests.shared.waiting import until

KEY = "hush-hush-1234"
TOOL: Any = {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
ASKED: Any = [{"role": "user", "content": f"{SEARCHES}. {THINKS}."}]


@dataclass(frozen=True, slots=True)
class Customer:
    """Their tool server, and a job that calls it."""

    endpoint: ScriptedEndpoint
    job_id: str
    model: str
    asked_items: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def path(self) -> str:
        return f"/fine_tuning/jobs/{self.job_id}/playground"


@pytest.fixture(scope="module")
def platform(
    emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory, base_model: Path
) -> Iterator[ServedPlatform]:
    home = tmp_path_factory.mktemp("home")
    with scripted_platform(emptied_database, home, base_model, max_retries=0) as running:
        yield running


@pytest.fixture
async def customer(platform: ServedPlatform, client: AsyncOpenAI) -> AsyncIterator[Customer]:
    items = list[JsonObject]()

    def search(arguments: JsonObject, item: JsonObject) -> str:
        items.append(item)
        return f"found {arguments['query']}"

    endpoint = ScriptedEndpoint(ScriptedTools({"search": search}))
    async with LoopbackEndpoint(endpoint) as address:
        server: Any = {"name": "search", "server_url": address.tool_url, "headers": {"X-Key": KEY}}
        reinforcement = {"grader": EXACT, "tools": [server], "max_episode_steps": 3}
        row = {"messages": ASKED, "tools": [{"type": "function", "function": TOOL}], "answer": 7}
        file = await upload(client, json.dumps(row).encode())
        method: Any = {"type": "reinforcement", "reinforcement": reinforcement}
        job = await client.fine_tuning.jobs.create(model="tiny", training_file=file.id, method=method)
        endpoint.calls.clear()
        yield Customer(endpoint, job.id, f"ft:tiny:local::{job.id[-8:]}", items)


def give_checkpoints(platform: ServedPlatform, customer: Customer, rewards: dict[int, float]) -> None:
    """To a job that has not ended."""
    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        for step, reward in rewards.items():
            path = f"checkpoints/checkpoint-{step}"
            (platform.api.settings.runs_dir / customer.job_id / path).mkdir(parents=True)
            connection.execute(
                "insert into checkpoints (id, job_id, step, path, metrics, is_kept) values (%s, %s, %s, %s, %s, true)",
                (f"ftckpt_{customer.job_id}_{step}", customer.job_id, step, path,
                 Jsonb({"full_valid_mean_reward": reward})),
            )  # fmt: skip


async def play(client: AsyncOpenAI, customer: Customer, **body: Any) -> Any:
    return await client.post(customer.path, cast_to=object, body={"messages": ASKED, "model": "tiny", **body})


async def events_of(platform: ServedPlatform, customer: Customer, **body: Any) -> list[Any]:
    """Every event of a stream."""
    headers = {"authorization": f"Bearer {platform.api.key}"}
    wanted = {"messages": ASKED, "model": "tiny", "stream": True, **body}
    url = f"{platform.api.url}/v1{customer.path}"
    async with httpx.AsyncClient(timeout=120, headers=headers) as http, http.stream("POST", url, json=wanted) as reply:
        assert reply.status_code == 200
        return [json.loads(line[6:]) async for line in reply.aiter_lines() if line.startswith("data: ")]


async def test_tools_are_called_as_in_a_rollout_and_all_is_told(
    platform: ServedPlatform, client: AsyncOpenAI, customer: Customer
) -> None:
    events = await events_of(platform, customer, item={"answer": 7}, temperature=0)
    kinds = [event["type"] for event in events]
    assert [kind for i, kind in enumerate(kinds) if kinds[i - 1 : i] != [kind]] == [
        "text", "turn", "call", "result", "turn", "call", "result", "text", "turn", "end",
    ]  # fmt: skip
    told = "".join(event["text"] for event in events if event["type"] == "text" and event["turn"] == 0)
    turns = [event for event in events if event["type"] == "turn"]
    assert told == turns[0]["content"] == "I look."
    assert turns[0]["reasoning_content"] == "So be it."
    assert turns[0]["usage"]["prompt_tokens"] < turns[1]["usage"]["cached_tokens"] < turns[2]["usage"]["cached_tokens"]
    calls = {event["call_id"]: event for event in events if event["type"] == "call"}
    results = [event for event in events if event["type"] == "result"]
    assert [json.loads(calls[result["call_id"]]["arguments"])["query"] for result in results] == ["one", "two", "three"]
    assert [result["output"] for result in results] == ["found one", "found two", "found three"]
    conversation = events[-1]["conversation"]
    assert (conversation["stop_reason"], conversation["failure"], conversation["model"]) == ("completed", None, "tiny")
    assert conversation["messages"][-1]["content"] == ANSWER
    assert [message["role"] for message in conversation["messages"]] == [
        "assistant", "tool", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    sent = [json.loads(call.body) for call in customer.endpoint.calls]
    assert {body["trace_id"] for body in sent} == {conversation["id"]}
    assert {call.headers["x-key"] for call in customer.endpoint.calls} == {KEY}
    assert all(item["answer"] == 7 and item["messages"] == ASKED for item in customer.asked_items)
    whole = await play(client, customer, item={"answer": 7}, temperature=0)
    assert [message["content"] for message in whole["messages"]] == [
        message["content"] for message in conversation["messages"]
    ]


async def test_what_it_says_goes_back_with_the_next_question(client: AsyncOpenAI, customer: Customer) -> None:
    first = await play(client, customer)
    messages = [*ASKED, *first["messages"], {"role": "user", "content": "How much?"}]
    second = await play(client, customer, messages=messages)
    assert [message["content"] for message in second["messages"]] == [ANSWER]


async def test_two_conversations_do_not_end_each_others_rollouts_at_a_gateway_service(
    client: AsyncOpenAI, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list[str]()

    async def connected(spec: RunSpec, secrets: RunSecrets) -> CustomerConnections:
        names.append(spec.job_id)
        return await open_tool_connections(spec, secrets)

    monkeypatch.setattr("rft.platform.serving.playground.playing.open_tool_connections", connected)
    await play(client, customer)
    await play(client, customer)
    assert len({*names}) == 2
    assert all(name.startswith(f"playground-{customer.job_id}") for name in names), "endpoints see whose it is"


async def test_the_jobs_budget_of_calls_holds_and_a_question_may_follow(
    platform: ServedPlatform, client: AsyncOpenAI, customer: Customer
) -> None:
    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        connection.execute(
            "update jobs set method = jsonb_set(method, '{reinforcement,max_episode_steps}', '1') where id = %s",
            (customer.job_id,),
        )
    events = await events_of(platform, customer)
    results = [event for event in events if event["type"] == "result"]
    assert [result["error_code"] for result in results] == [None, "tool_budget_used_up", "tool_budget_used_up"]
    assert [result["call_id"] for result in results] == [
        event["call_id"] for event in events if event["type"] == "call"
    ]
    assert len(customer.endpoint.calls) == 1
    assert events[-1]["conversation"]["stop_reason"] == "max_tool_calls"
    added = events[-1]["conversation"]["messages"]
    assert [message["role"] for message in added[-2:]] == ["assistant", "tool"], "its last call, which nobody made"
    after = await play(client, customer, messages=[*ASKED, *added, {"role": "user", "content": "How much?"}])
    assert [message["content"] for message in after["messages"]] == [ANSWER]


async def test_the_base_model_thinks_with_the_jobs_effort_where_none_is_named(
    platform: ServedPlatform, client: AsyncOpenAI, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its baseline does, and a checkpoint by its training."""
    efforts = list[str | None]()

    async def run(row: DatasetRow, setup: MessageSetup) -> MessageRollout:
        efforts.append(setup.sampling.reasoning_effort)
        return await run_message_rollout(row, setup)

    monkeypatch.setattr("rft.platform.serving.playground.playing.run_message_rollout", run)
    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        connection.execute(
            "update jobs set method = jsonb_set(method, '{reinforcement,hyperparameters,reasoning_effort}', %s)"
            " where id = %s",
            (Jsonb("low"), customer.job_id),
        )
    give_checkpoints(platform, customer, {2: 0.7})
    await play(client, customer)
    await play(client, customer, reasoning_effort="medium")
    await play(client, customer, model=None)
    assert efforts == ["low", "medium", None]


async def test_a_tool_that_fails_ends_it_with_blame_and_no_secret(platform: ServedPlatform, customer: Customer) -> None:
    body = json.dumps({"error": f"your key {KEY} is not known here"}).encode()
    customer.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=500, body=body)], last_stays=True)
    *_, failed, end = await events_of(platform, customer)
    assert failed["type"] == "failure"
    assert (failed["failure"]["stage"], failed["failure"]["fault"]) == ("tool", "endpoint")
    assert (failed["failure"]["endpoint"], failed["failure"]["status"]) == ("search", 500)
    assert "is not known here" in failed["failure"]["message"]
    assert KEY not in json.dumps([failed, end])
    assert end["conversation"]["failure"] == failed["failure"]
    assert end["conversation"]["stop_reason"] is None


async def test_a_tool_that_refuses_is_a_result_without_the_secret(platform: ServedPlatform, customer: Customer) -> None:
    body = json.dumps({"error": f"your key {KEY} may not ask this"}).encode()
    customer.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=422, body=body)], last_stays=True)
    events = await events_of(platform, customer)
    first = next(event for event in events if event["type"] == "result")
    assert (first["error_code"], first["status"]) == ("http_422", 422)
    assert "may not ask this" in first["output"]
    assert KEY not in json.dumps(events)


async def test_the_best_checkpoint_answers_where_none_is_named(
    platform: ServedPlatform, client: AsyncOpenAI, customer: Customer
) -> None:
    with pytest.raises(BadRequestError, match="no checkpoint") as raised:
        await play(client, customer, model=None)
    assert raised.value.param == "model"
    give_checkpoints(platform, customer, {2: 0.7, 4: 0.4})
    assert (await play(client, customer, model=None))["model"] == f"{customer.model}:ckpt-step-2"
    assert (await play(client, customer, model=f"{customer.model}:ckpt-step-4"))["model"].endswith("4")


async def test_what_cannot_be_done_names_its_field(
    platform: ServedPlatform, client: AsyncOpenAI, customer: Customer
) -> None:
    said = {"role": "assistant", "content": "Yes."}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [*ASKED, said]}, "messages[1].role"),
        ({"model": platform.model}, "model"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"temperature": 3}, "temperature"),
    ]
    for changes, param in refused:
        for is_streamed in (False, True):
            with pytest.raises(BadRequestError) as raised:
                await play(client, customer, stream=is_streamed, **changes)
            assert raised.value.param == param
    for path in ("/fine_tuning/jobs/ftjob-none/playground", customer.path):
        with pytest.raises(NotFoundError):
            await client.post(path, cast_to=object, body={"messages": ASKED, "model": "gpt-5"})


async def test_a_client_that_hangs_up_ends_the_conversation(client: AsyncOpenAI, customer: Customer) -> None:
    with pytest.raises(APITimeoutError):
        await client.with_options(timeout=1.0).post(
            customer.path, cast_to=object, body={"messages": [{"role": "user", "content": ENDLESS}], "model": "tiny"}
        )
    await until(lambda: is_free(client, customer), "the model's only place is free again")


async def is_free(client: AsyncOpenAI, customer: Customer) -> bool:
    """Whether the model answers."""
    done = await play(client, customer, messages=[{"role": "user", "content": "How much?"}])
    return done["failure"] is None


def command(platform: ServedPlatform, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """A command line, and the environment that it runs in."""
    address = {"RFT_BASE_URL": f"{platform.api.url}/v1", "RFT_API_KEY": platform.api.key}
    return [sys.executable, "-m", "rft.platform.cli", "chat", *arguments], {**os.environ, **address}


async def rft_chat(platform: ServedPlatform, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    line, environment = command(platform, *arguments)
    return await asyncio.to_thread(
        subprocess.run, line, env=environment, input=typed, capture_output=True, text=True, timeout=300
    )


async def test_the_terminal_shows_calls_results_and_tokens(platform: ServedPlatform, customer: Customer) -> None:
    done = await rft_chat(platform, "tiny", "--job", customer.job_id, "-m", f"{SEARCHES}. {THINKS}.")
    assert done.returncode == 0, done.stderr
    shown = [line.partition(" (")[0] for line in done.stdout.splitlines()]
    assert shown == [
        "I look.", '-> search {"query": "one"}', '-> search {"query": "two"}', "<- found one", "<- found two",
        '-> search {"query": "three"}', "<- found three", ANSWER,
    ]  # fmt: skip
    assert done.stderr.count(" out") == 3
    as_json = await rft_chat(platform, "tiny", "--job", customer.job_id, "-m", SEARCHES, "--json")
    assert [json.loads(line)["type"] for line in as_json.stdout.splitlines()][-1] == "end"
    customer.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=500)], last_stays=True)
    failed = await rft_chat(platform, "tiny", "--job", customer.job_id, "-m", SEARCHES)
    assert failed.returncode == 1
    assert "fault: endpoint" in failed.stderr
    assert KEY not in failed.stderr + failed.stdout


async def test_the_terminal_goes_on_with_what_was_said(platform: ServedPlatform, customer: Customer) -> None:
    give_checkpoints(platform, customer, {2: 0.7})
    done = await rft_chat(platform, customer.job_id, typed="How much?\n\nAnd now?\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [ANSWER, ANSWER]
    first, second = [line for line in done.stderr.splitlines() if "tokens in" in line]
    assert int(first.split()[0]) < int(second.split()[0])
    plain = await rft_chat(platform, "tiny", "-m", "How much?")
    assert (plain.stdout.strip(), plain.returncode) == (ANSWER, 0)
    assert "without tools" in plain.stderr
    unknown = await rft_chat(platform, f"{customer.model}:ckpt-step-9", "-m", "How much?")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "does not exist" in unknown.stderr


async def test_an_interrupt_ends_a_turn_and_not_the_chat(
    platform: ServedPlatform, client: AsyncOpenAI, customer: Customer
) -> None:
    line, environment = command(platform, "tiny", "--job", customer.job_id)
    chat = await asyncio.create_subprocess_exec(*line, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write(f"{ENDLESS}\n".encode())
    begun = await chat.stdout.readexactly(len(ANSWER) - 1)
    assert ANSWER.startswith(begun.decode())
    chat.send_signal(signal.SIGINT)
    # The chat asks at once, and would be refused until the platform has seen that it hung up.
    await until(lambda: is_free(client, customer), "the model's only place is free again")
    out, err = await chat.communicate(b"How much?\n")
    assert chat.returncode == 0, err.decode()
    assert "are not kept" in err.decode()
    assert out.decode().split("\n")[-2] == ANSWER
