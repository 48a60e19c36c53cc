"""Where a file is used, newest first."""

from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError

from tests.shared.running_api import EXACT, upload


async def test_a_file_is_told_with_the_evals_that_ran_over_it(client: AsyncOpenAI) -> None:
    content = b'{"item": {"answer": "7"}, "sample": {"output_text": "7"}}\n'
    items = await client.files.create(file=("items.jsonl", content), purpose="evals")
    path = f"/dashboard/files/{items.id}/uses"
    assert await told(client, path) == []
    made = await client.evals.create(
        name="Arithmetic",
        data_source_config={"type": "custom", "item_schema": {"type": "object"}, "include_sample_schema": True},
        testing_criteria=[EXACT],
    )
    source: Any = {"type": "jsonl", "source": {"type": "file_id", "id": items.id}}
    runs = [await client.evals.runs.create(made.id, name=name, data_source=source) for name in ("first", "second")]
    uses = await told(client, path)
    assert [(use["kind"], use["id"], use["name"]) for use in uses] == [
        ("eval_run", runs[1].id, "second"),
        ("eval_run", runs[0].id, "first"),
    ]
    assert {(use["eval_id"], use["purpose"], use["status"]) for use in uses} == {(made.id, "items", "queued")}
    assert [use["name"] for use in await told(client, f"{path}?limit=1")] == ["second"]
    other = await upload(client)
    assert await told(client, f"/dashboard/files/{other.id}/uses") == []


async def test_what_is_no_file_is_used_nowhere(client: AsyncOpenAI) -> None:
    with pytest.raises(NotFoundError):
        await told(client, "/dashboard/files/file-none/uses")


async def told(client: AsyncOpenAI, path: str) -> list[dict[str, Any]]:
    page: Any = await client.get(path, cast_to=object)
    return page["data"]
