"""What happens around answers: busy and killed processes, clients that hang up, a machine that is full."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import APIError, AsyncOpenAI, InternalServerError

from rft.core.messages import Message, Role
from rft.platform.api.key_repository import create_key, id_of
from rft.platform.lifecycle.owner import is_alive
from rft.platform.serving import giving_way, processes
from rft.platform.serving.giving_way import give_way_to_trainer
from rft.serving_wire.endpoint_file import read_endpoint
from rft.serving_wire.lines import write_line
from rft.serving_wire.records import CompletionRequest, ServingEndpoint
from tests.integration.serving.scripted.asking import ask, endless, is_answered, pid
from tests.shared.scripted_engine import ANSWER, ENDLESS
from tests.shared.served_models import ServedPlatform, serving_pid
from tests.shared.waiting import until


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
    platform: ServedPlatform, client: AsyncOpenAI, refused_port: int
) -> None:
    assert await ask(client) == ANSWER
    folder = await ended(platform)
    stale = ServingEndpoint(port=refused_port, token="t", pid=os.getpid())
    (folder / "endpoint.json").write_text(stale.model_dump_json())
    assert await ask(client) == ANSWER
    assert read_endpoint(folder) != stale


async def ended(platform: ServedPlatform) -> Path:
    """End the one process that serves; its folder."""
    (folder,) = [folder for folder in platform.api.settings.serving_dir.iterdir() if read_endpoint(folder)]
    os.kill(pid(platform), signal.SIGTERM)
    await until(lambda: serving_pid(platform) is None, "it ends")
    return folder


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


def make_other(base_model: Path) -> None:
    """The base model under another name."""
    if not (other := base_model.parent / "other").exists():
        other.symlink_to(base_model)


async def test_another_model_waits_for_a_free_place_and_then_takes_it(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path
) -> None:
    make_other(base_model)
    stream, _ = await endless(client)
    with pytest.raises(InternalServerError) as raised:
        await ask(client, model="other")
    assert (raised.value.status_code, raised.value.code) == (503, "serving_slots_in_use")
    await stream.close()
    await until(lambda: is_answered(client, "other"), "the other model's place")
    assert len([folder for folder in platform.api.settings.serving_dir.iterdir() if read_endpoint(folder)]) == 1
    await until(lambda: is_answered(client), "the first model's place")


async def test_another_model_takes_no_place_from_who_is_answered_through_another_process_of_the_platform(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path
) -> None:
    make_other(base_model)
    await until(lambda: is_answered(client), "a free place")
    (endpoint,) = filter(None, map(read_endpoint, platform.api.settings.serving_dir.iterdir()))
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    question = Message(role=Role.USER, content=ENDLESS)
    request = CompletionRequest(token=endpoint.token, model="tiny", messages=(question,), seed=1, is_streamed=True)
    await write_line(writer, request)
    assert await reader.readline()
    with pytest.raises(InternalServerError) as raised:
        await ask(client, model="other")
    assert raised.value.code == "serving_slots_in_use"
    with pytest.raises(TimeoutError):  # It goes on.
        await asyncio.wait_for(reader.read(-1), 0.3)
    writer.close()
    await until(lambda: is_answered(client, "other"), "the other model's place")
    await until(lambda: is_answered(client), "the first model's place")


async def test_a_start_that_another_process_of_the_platform_gave_up_is_made_here(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    assert await ask(client) == ANSWER
    folder = await ended(platform)
    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        await until(lambda: not leased(connection), "the lease is given back")
        mine = f"%/{folder.name}"
        connection.execute(
            "update serving_processes set status = 'running', lease_owner = 'another', lease_until = now() + '1h'"
            " where id like %s",
            (mine,),
        )
        waiting = asyncio.create_task(ask(client))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.5)
        assert read_endpoint(folder) is None
        connection.execute("update serving_processes set lease_until = now() - interval '1s' where id like %s", (mine,))
        assert await waiting == ANSWER


async def test_a_start_that_breaks_leaves_no_lease_behind(
    platform: ServedPlatform, client: AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug of ours")

    assert await ask(client) == ANSWER
    await ended(platform)
    with psycopg.connect(platform.database_url, autocommit=True) as connection, monkeypatch.context() as patched:
        await until(lambda: not leased(connection), "the lease is given back")
        patched.setattr(processes, "start_process", broken)
        with pytest.raises(InternalServerError) as raised:
            await ask(client)
        assert raised.value.status_code == 500
        assert not leased(connection)
    assert await ask(client) == ANSWER


def leased(connection: psycopg.Connection) -> int:
    row = connection.execute("select count(*) from serving_processes where lease_owner is not null").fetchone()
    assert row is not None
    return row[0]


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


async def test_a_process_on_the_gpu_of_jobs_has_left_it_when_a_trainer_starts(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ask(client) == ANSWER
    before = pid(platform)
    monkeypatch.setattr(giving_way, "take_gpu_of_chat", lambda *_: True)  # pyright: ignore[reportUnknownLambdaType]
    assert await give_way_to_trainer(platform.api.settings, base_model, free=1 << 50) == 1
    assert not is_alive(before)
    assert await ask(client) == ANSWER


async def test_the_lease_goes_with_the_process(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    assert await ask(client) == ANSWER
    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        assert leased(connection) == 1
        os.kill(pid(platform), signal.SIGTERM)
        await until(lambda: leased(connection) == 0, "the lease is given back")
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


async def test_so_is_what_a_client_has_read_that_hangs_up(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    await until(lambda: is_answered(client), "a free place")
    async with await psycopg.AsyncConnection.connect(platform.database_url, autocommit=True) as database:
        key = await create_key(database, "hangs up")
        stream, _ = await endless(client.with_options(api_key=key))
        await stream.close()

        async def counted() -> list[tuple[int, int]]:
            query = "select requests::int, completion_tokens::int from served_tokens where api_key_id = %s"
            return await (await database.execute(query, (id_of(key),))).fetchall()

        async def is_counted() -> bool:
            return bool(await counted())

        await until(is_counted, "the request is counted")
        ((requests, tokens),) = await counted()
    assert (requests, tokens > 0) == (1, True)
    await until(lambda: is_answered(client), "a free place")
