"""Who has no key learns nothing: every route of the document answers 401 before it looks at anything."""

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from rft.platform.files.uploading import MAX_FILE_BYTES
from rft.platform.settings import Settings
from tests.integration.api.openapi_document import DOCUMENT
from tests.shared.running_api import Api, Served

_PARAMETER = re.compile(r"\{[^}]+\}")
_JSON = {"content-type": "application/json"}
OPEN = {"/health", "/dashboard/session"}
"""What is asked before there is a key: see test_sessions.py for the second."""
BODIES: dict[str, tuple[bytes, dict[str, str]]] = {
    "no JSON": (b"{oops", _JSON),
    "no text": (b"\xff\xfe", _JSON),
    "no form": (b"--", {"content-type": "multipart/form-data; boundary=x"}),
}
"""Nothing of what a route might find wrong may be found before the key is."""


@pytest.mark.parametrize("key", [None, "wrong", "rft_abcdefabcdef_guess"])
async def test_every_route_refuses_strangers_whatever_exists(
    client: AsyncOpenAI, order: dict[str, Any], api: Api, key: str | None
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    asked = 0
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=60) as stranger:
        for path, methods in routes().items():
            for method in methods:
                replies: set[tuple[int, str]] = set()
                for known in (job.id, job.training_file, "nothing"):
                    reply = await stranger.request(method, _PARAMETER.sub(known, path), json={})
                    replies.add((reply.status_code, reply.text))
                assert [status for status, _ in replies] == [401], f"{method} {path}: {replies}"
                asked += 1
    assert asked > 20


@pytest.mark.parametrize("key", [None, "rft_abcdefabcdef_guess"])
async def test_a_stranger_is_refused_before_the_body_is_read(api: Api, key: str | None) -> None:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=60) as stranger:
        for path, methods in routes().items():
            for method in methods:
                for name, (content, says) in BODIES.items():
                    url = f"{_PARAMETER.sub('nothing', path)}?limit=many"
                    reply = await stranger.request(method, url, content=content, headers=says)
                    assert reply.status_code == 401, f"{method} {path} with a body that is {name}: {reply.text}"


async def test_a_stranger_is_refused_without_the_bytes_that_he_announces(api: Api) -> None:
    address = httpx.URL(api.url)
    for path in ("/v1/files", "/v1/fine_tuning/jobs"):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        head = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {2 * MAX_FILE_BYTES}\r\n\r\n"
        writer.write(head.encode())
        assert b" 401 " in await asyncio.wait_for(reader.readline(), 30)
        writer.close()
        await writer.wait_closed()


async def test_a_stranger_does_not_learn_which_routes_there_are(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, timeout=60.0) as stranger:
        for method, path in (("GET", "/v1"), ("GET", "/v1/nothing"), ("PATCH", "/v1/files"), ("OPTIONS", "/v1/files")):
            assert (await stranger.request(method, path)).status_code == 401, f"{method} {path}"


def routes() -> dict[str, list[str]]:
    """The paths of the document that want a key, with their methods."""
    return {path: list(operations) for path, operations in DOCUMENT["paths"].items() if path not in OPEN}


async def test_where_names_are_told_the_api_is_asked_by_no_other(migrated_url: str, tmp_path: Path, api: Api) -> None:
    settings = Settings.model_validate(
        {
            "home": tmp_path / "named",
            "DATABASE_URL": migrated_url,
            "allowed_hosts": ["rft.example.com"],
            "host": "10.0.0.5",
            "platform_url": "http://rft.internal:8787/",
        }
    )
    names = ("rft.example.com", "10.0.0.5:8787", "RFT.internal:8787", "localhost:1")
    with Served(settings, api.messages) as port:
        headers = {"authorization": f"Bearer {api.key}"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60.0) as http:
            for host, status in (("evil.example", 400), ("10.0.0.6", 400), *((name, 200) for name in names)):
                for path in ("/v1/models", "/health", "/"):
                    reply = await http.get(path, headers={"host": host})
                    assert reply.status_code == status, (host, path)
                    if status == 400:
                        assert reply.json()["error"]["code"] == "unknown_host"
