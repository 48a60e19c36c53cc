"""Dry runs of graders that never end stand in nobody's way."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from openai import AsyncOpenAI

from rft.grader_gateway.builtin.sandbox.pool import AT_ONCE
from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import Api, ReceivedMessages, Served

PYTHON: dict[str, Any] = {"type": "python", "name": "code"}
ENDLESS = {**PYTHON, "source": "def grade(sample, item):\n    while True:\n        pass\n"}
QUICK = {**PYTHON, "source": "def grade(sample, item):\n    return 0.5\n"}
CAP_S = 120.0


async def new_key(database_url: str, name: str) -> str:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        return await create_key(connection, name)


@pytest.fixture
async def api(migrated_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    settings = Settings.model_validate({"home": tmp_path, "DATABASE_URL": migrated_url, "dry_run_grade_s": CAP_S})
    key, messages = await new_key(migrated_url, "one"), ReceivedMessages()
    with Served(settings, messages) as port:
        yield Api(url=f"http://127.0.0.1:{port}", key=key, settings=settings, messages=messages)


async def grade(client: AsyncOpenAI, grader: Any) -> Any:
    return await client.fine_tuning.alpha.graders.run(grader=grader, model_sample="7", item={})


def sandboxes() -> list[psutil.Process]:
    """The processes that grade for us, and theirs."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if is_sandbox(child)]


def is_sandbox(process: psutil.Process) -> bool:
    try:
        return any("builtin.sandbox" in word for word in process.cmdline())
    except psutil.Error:
        return False


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """The children of a process that may end while it is looked at."""
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


async def until(condition: Any, within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.02)


async def abandoned(api: Api, path: str, body: Any) -> asyncio.StreamWriter:
    """A request on a socket of its own, sent and not waited for."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {api.key}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
    return writer


async def test_a_dry_run_has_less_time_than_a_job(migrated_url: str, tmp_path: Path) -> None:
    settings = Settings.model_validate({"home": tmp_path, "DATABASE_URL": migrated_url, "dry_run_grade_s": 0.5})
    key = await new_key(migrated_url, "one")
    with Served(settings, ReceivedMessages()) as port:
        async with AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0) as client:
            part = {**QUICK, "name": "quick"}
            multi = {"type": "multi", "name": "both", "graders": {"a": ENDLESS, "b": part}, "calculate_output": "a + b"}
            for grader in (ENDLESS, multi):
                told = await grade(client, grader)
                assert told.metadata.errors.python_grader_runtime_error
                assert "took longer than 0.5 s" in str(told.metadata.errors.python_grader_runtime_error_details)
            registered = await client.post("/graders", cast_to=object, body={"grader": ENDLESS})
            assert isinstance(registered, dict)
            tested = await client.post(f"/graders/{registered['id']}/test", cast_to=object, body={})
            assert "took longer than 0.5 s" in str(tested)


async def test_endless_graders_of_one_key_leave_room_for_another(api: Api, migrated_url: str) -> None:
    other_key = await new_key(migrated_url, "other")
    async with (
        AsyncOpenAI(base_url=f"{api.url}/v1", api_key=api.key, max_retries=0) as client,
        AsyncOpenAI(base_url=f"{api.url}/v1", api_key=other_key, max_retries=0) as other,
    ):
        endless = [asyncio.ensure_future(grade(client, ENDLESS)) for _ in range(2 * AT_ONCE)]
        await until(lambda: len(sandboxes()) >= AT_ONCE // 2)
        started_s = time.monotonic()
        assert (await grade(other, QUICK)).reward == 0.5
        assert time.monotonic() - started_s < CAP_S - 2
        assert not any(task.done() for task in endless)
        for task in endless:
            task.cancel()
        await asyncio.gather(*endless, return_exceptions=True)
    await until(lambda: not sandboxes())


async def test_a_dry_run_whose_caller_hangs_up_is_ended(api: Api) -> None:
    body = {"grader": ENDLESS, "model_sample": "7", "item": {}}
    writers = [await abandoned(api, "/v1/fine_tuning/alpha/graders/run", body) for _ in range(AT_ONCE)]
    try:
        await until(lambda: any(descendants(process) for process in sandboxes()))
        children = [child for process in sandboxes() for child in (process, *descendants(process))]
    finally:
        for writer in writers:
            writer.close()
    hung_up_s = time.monotonic()
    await until(lambda: not sandboxes())
    await until(lambda: not any(child.is_running() for child in children))
    assert time.monotonic() - hung_up_s < CAP_S - 5
    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key=api.key, max_retries=0) as client:
        assert (await grade(client, QUICK)).reward == 0.5


async def test_a_tool_is_not_called_again_for_a_caller_that_hung_up(api: Api) -> None:
    faults = FaultSequence([Fault(FaultKind.HANG)])
    async with LoopbackEndpoint(ScriptedEndpoint(faults=faults)) as customer:
        writer = await abandoned(
            api,
            "/v1/fine_tuning/alpha/tool/run",
            {"name": "search", "server_url": customer.tool_url, "arguments": "{}"},
        )
        await until(lambda: customer.endpoint.calls)
        writer.close()
        await until(lambda: not customer.endpoint.in_flight)
        await asyncio.sleep(1)
        assert len(customer.endpoint.calls) == 1
