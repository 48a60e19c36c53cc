"""Who waits too long for another checkpoint's turn is refused as if nothing had been answered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, InternalServerError

from tests.integration.serving.scripted.asking import ask, endless
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.scripted_engine import ANSWER
from tests.shared.served_models import ServedPlatform, scripted_platform
from tests.shared.waiting import until


@pytest.fixture(scope="module")
def platform(
    emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory, base_model: Path
) -> Iterator[ServedPlatform]:
    """It answers several, and has little patience."""
    home = tmp_path_factory.mktemp("home")
    with scripted_platform(
        emptied_database, home, base_model, serving_requests_at_once=8, serving_queue_s=0.2
    ) as running:
        yield running


def counted(connection: psycopg.Connection) -> dict[str, int]:
    """Requests by model."""
    return dict(connection.execute("select model, sum(requests)::int from served_tokens group by model").fetchall())


async def test_a_refused_stream_has_the_status_of_one_and_is_not_counted(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    stream, _ = await endless(client)
    asked: dict[str, Any] = {
        "model": platform.model,
        "input": "How much?",
        "messages": [{"role": "user", "content": "?"}],
    }
    for path, left_out in (("/chat/completions", "input"), ("/responses", "messages")):
        for is_streamed in (True, False):
            body = {name: value for name, value in asked.items() if name != left_out}
            with pytest.raises(InternalServerError) as raised:
                await client.post(path, cast_to=object, body={**body, "stream": is_streamed})
            assert (raised.value.status_code, raised.value.code) == (503, "other_checkpoint_in_use")
            assert int(raised.value.response.headers["retry-after"]) >= 1
    await stream.close()
    assert await ask(client) == ANSWER
    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        await until(lambda: counted(connection).get("tiny") == 2, "those that were answered are counted")
        assert counted(connection) == {"tiny": 2}
