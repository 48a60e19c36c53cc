"""Who has no key learns nothing: every route of the document answers 401 before it looks at anything."""

import re
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.integration.api.running_api import Api

_PARAMETER = re.compile(r"\{[^}]+\}")
OPEN = {"/health"}


@pytest.mark.parametrize("key", [None, "wrong", "rft_abcdefabcdef_guess"])
async def test_every_route_refuses_strangers_whatever_exists(
    client: AsyncOpenAI, order: dict[str, Any], api: Api, key: str | None
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    asked = 0
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=60) as stranger:
        document = (await stranger.get("/openapi.json")).json()
        for path, operations in document["paths"].items():
            if path in OPEN:
                continue
            for method in operations:
                replies: set[tuple[int, str]] = set()
                for known in (job.id, job.training_file, "nothing"):
                    reply = await stranger.request(method, _PARAMETER.sub(known, path), json={})
                    replies.add((reply.status_code, reply.text))
                assert [status for status, _ in replies] == [401], f"{method} {path}: {replies}"
                asked += 1
    assert asked > 20
