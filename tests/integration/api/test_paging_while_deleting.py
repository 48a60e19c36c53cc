"""Pages go on after an object that was deleted since: whoever deletes page by page gets to the end."""

from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from rft.platform.files.sweeping import sweep_deleted_cursors, sweep_expired
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from tests.shared.running_api import EXACT, Api, collect, upload


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_all_files_can_be_deleted_while_they_are_listed(client: AsyncOpenAI, order: Any) -> None:
    for _ in range(5):
        await upload(client)
    seen = 0
    async for file in client.files.list(limit=2, order=order):
        await client.files.delete(file.id)
        seen += 1
    assert seen == 5
    assert await collect(client.files.list()) == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [("tools", {"name": "search", "server_url": "http://127.0.0.1:9/"}), ("graders", {"grader": EXACT})],
)
async def test_all_registrations_can_be_deleted_while_they_are_listed(
    client: AsyncOpenAI, kind: str, body: dict[str, Any]
) -> None:
    for _ in range(5):
        await client.post(f"/{kind}", body=body, cast_to=object)
    after, seen = "", 0
    while True:
        page: Any = await client.get(f"/{kind}?limit=2{after}", cast_to=object)
        for entry in page["data"]:
            await client.delete(f"/{kind}/{entry['id']}", cast_to=object)
            seen += 1
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert seen == 5


async def test_a_place_belongs_to_one_list(client: AsyncOpenAI) -> None:
    file_id = (await upload(client)).id
    await client.files.delete(file_id)
    assert await collect(client.files.list(after=file_id)) == []
    with pytest.raises(BadRequestError) as raised:
        await client.get(f"/tools?after={file_id}", cast_to=object)
    assert (raised.value.param, raised.value.code) == ("after", "invalid_cursor")


async def test_swept_files_keep_their_place_for_a_while(api: Api, client: AsyncOpenAI, migrated_url: str) -> None:
    older, newer = (await upload(client)).id, (await upload(client)).id
    store = LocalFileStore(api.settings.files_dir)
    async with Database(migrated_url, max_connections=2) as database:
        async with database.transaction() as connection:
            await connection.execute("update files set expires_at = now() where id = %s", (newer,))
        assert [file.id for file in await collect(client.files.list(after=newer))] == [older], "expired"
        assert await sweep_expired(database, store) == 1
        assert [file.id for file in await collect(client.files.list(after=newer))] == [older], "swept"
        assert await sweep_deleted_cursors(database, store) == 0
        async with database.transaction() as connection:
            await connection.execute("update deleted_cursors set deleted_at = deleted_at - interval '2 days'")
        assert await sweep_deleted_cursors(database, store) == 1
    with pytest.raises(BadRequestError):
        await client.files.list(after=newer)
