"""What a model is saying ends soon after the key of who asked, also where the model is silent."""

import asyncio
from typing import Any

import httpx
import psycopg
import pytest
from openai import AsyncOpenAI, InternalServerError

from rft.platform.api.key_repository import create_key, id_of, revoke_key
from tests.shared.running_api import EXACT, upload
from tests.shared.scripted_engine import ANSWER, ENDLESS
from tests.shared.served_models import ServedPlatform
from tests.shared.waiting import PATIENCE_S, until

QUESTION: Any = [{"role": "user", "content": ENDLESS}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "tiny", "messages": QUESTION},
    "/v1/responses": {"model": "tiny", "input": ENDLESS},
    "/v1/fine_tuning/jobs/{job}/playground": {"model": "tiny", "messages": QUESTION},
}


@pytest.fixture
async def job_id(client: AsyncOpenAI) -> str:
    """A job whose playground calls no tools."""
    file = await upload(client)
    method: Any = {"type": "reinforcement", "reinforcement": {"grader": EXACT}}
    return (await client.fine_tuning.jobs.create(model="tiny", training_file=file.id, method=method)).id


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("path", BODIES)
async def test_an_answer_ends_soon_after_the_key(
    platform: ServedPlatform, client: AsyncOpenAI, job_id: str, path: str, is_streamed: bool
) -> None:
    async def is_free() -> bool:
        try:
            done = await client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "How much?"}]
            )
        except InternalServerError:  # A 503: a process is not there yet, or not any more.
            return False
        return done.choices[0].message.content == ANSWER

    await until(is_free, "the model answers")
    async with await psycopg.AsyncConnection.connect(platform.database_url, autocommit=True) as database:
        key = await create_key(database, "short-lived")
        headers = {"authorization": f"Bearer {key}"}
        async with (
            asyncio.timeout(PATIENCE_S),
            httpx.AsyncClient(base_url=platform.api.url, headers=headers, timeout=PATIENCE_S) as caller,
            asyncio.TaskGroup() as tasks,
        ):
            body = {**BODIES[path], "stream": is_streamed}
            begun = asyncio.Event()
            asked = tasks.create_task(_answer(caller, path.format(job=job_id), body, begun))

            async def is_under_way() -> bool:
                return begun.is_set() if is_streamed else await _is_used(database, key)

            await until(is_under_way, "the request")
            assert not asked.done(), "the model goes on for as long as nobody ends it"
            assert await revoke_key(database, id_of(key) or "")
        status, text = asked.result()
    assert status == (200 if is_streamed else 401)
    assert '"invalid_api_key"' in text, "a reader can tell it from an answer that is whole"
    await until(is_free, "the model's only place is free again")


async def _answer(caller: httpx.AsyncClient, path: str, body: dict[str, Any], begun: asyncio.Event) -> tuple[int, str]:
    text = ""
    async with caller.stream("POST", path, json=body) as reply:
        async for piece in reply.aiter_text():
            text += piece
            begun.set()
        return reply.status_code, text


async def _is_used(database: psycopg.AsyncConnection[Any], key: str) -> bool:
    """Whether a request with the key was let in."""
    cursor = await database.execute("select last_used_at from api_keys where id = %s", (id_of(key),))
    row = await cursor.fetchone()
    assert row is not None
    return row[0] is not None
