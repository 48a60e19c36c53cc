"""What was asked of models can be read: by key, model and day, over REST and in the terminal."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError
from typer.testing import CliRunner, Result

from rft.platform.cli.app import app
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.served_models import ServedPlatform, scripted_platform

COUNTED = [
    ("2026-03-02", "gone", "tiny", 1, 10, 0, 5, 0),
    ("2026-03-02", "own", "ft:tiny:local::1", 4, 400, 300, 80, 1),
    ("2026-03-02", "own", "tiny", 2, 20, 0, 10, 0),
    ("2026-03-01", "own", "tiny", 3, 30, 0, 15, 2),
]


@pytest.fixture(scope="module")
def platform(
    emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory, base_model: Path
) -> Iterator[ServedPlatform]:
    """Nobody asks its models anything."""
    with scripted_platform(emptied_database, tmp_path_factory.mktemp("home"), base_model) as running:
        own = running.api.key.split("_")[1]
        with psycopg.connect(running.database_url, autocommit=True) as connection:
            for day, key, *more in COUNTED:
                values = (own if key == "own" else key, day, *more)
                connection.execute(
                    "insert into served_tokens (api_key_id, day, model, requests, prompt_tokens, remembered_tokens,"
                    " completion_tokens, rendered_again) values (%s, %s, %s, %s, %s, %s, %s, %s)",
                    values,
                )
        yield running


async def days(client: AsyncOpenAI, **query: Any) -> Any:
    return await client.get("/served_tokens", cast_to=object, options={"params": query})


def told(page: Any) -> list[tuple[Any, ...]]:
    names = ("day", "model", "requests", "prompt_tokens", "remembered_tokens", "completion_tokens", "rendered_again")
    return [tuple(row[name] for name in names) for row in page["data"]]


def expected(*numbers: int) -> list[tuple[Any, ...]]:
    return [(row[0], *row[2:]) for row in (COUNTED[number] for number in numbers)]


async def test_days_come_newest_first_and_page_by_page(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    whole = await days(client)
    assert sorted(told(whole)) == sorted(expected(0, 1, 2, 3))
    assert [row["day"] for row in whole["data"]] == ["2026-03-02"] * 3 + ["2026-03-01"]
    names = {row["api_key_id"]: row["api_key_name"] for row in whole["data"]}
    assert names == {"gone": None, platform.api.key.split("_")[1]: "tests"}
    seen, after = list[Any](), None
    while True:
        page = await days(client, limit=1, **({} if after is None else {"after": after}))
        seen += told(page)
        if not page["has_more"]:
            break
        after = page["last_id"]
    assert seen == told(whole)


async def test_filters(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    own = platform.api.key.split("_")[1]
    assert told(await days(client, model="tiny", api_key_id=own)) == expected(2, 3)
    assert told(await days(client, since="2026-03-02", api_key_id=own)) == expected(1, 2)
    assert told(await days(client, until="2026-03-01")) == expected(3)
    assert told(await days(client, model="gpt-5")) == []
    for query, param in (({"since": "yesterday"}, "since"), ({"after": "nothing"}, "after"), ({"limit": 0}, "limit")):
        with pytest.raises(BadRequestError) as raised:
            await days(client, **query)
        assert raised.value.param == param


async def test_the_terminal_shows_them(platform: ServedPlatform) -> None:
    def usage(*arguments: str) -> Result:
        address = ("--base-url", f"{platform.api.url}/v1", "--api-key", platform.api.key)
        return CliRunner().invoke(app, ["models", "usage", *arguments, *address])

    shown = await asyncio.to_thread(usage, "--since", "2026-03-02")
    assert shown.exit_code == 0, shown.output
    assert "ft:tiny:local::1" in shown.output
    assert "2026-03-01" not in shown.output
    as_json = await asyncio.to_thread(usage, "--model", "tiny", "--key", platform.api.key.split("_")[1], "--json")
    assert [row["requests"] for row in json.loads(as_json.output)] == [2, 3]
