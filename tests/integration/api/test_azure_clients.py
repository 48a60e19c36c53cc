"""Azure's clients and spellings: the key in `api-key`, paths below `/openai`, an `api-version` in the query."""

import io
from typing import Any

import httpx
import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI, AuthenticationError, NotFoundError

from tests.shared.running_api import ROW, Api, changed, upload

VERSION = "2025-04-01-preview"


def azure(api: Api, way: str) -> AsyncOpenAI:
    """A client as Azure's documents set it up."""
    match way:
        case "endpoint":
            return AsyncAzureOpenAI(azure_endpoint=api.url, api_key=api.key, api_version=VERSION, max_retries=0)
        case "base_url":
            return AsyncAzureOpenAI(
                base_url=f"{api.url}/openai/v1", api_key=api.key, api_version=VERSION, max_retries=0
            )
        case _:
            return AsyncOpenAI(base_url=f"{api.url}/openai/v1/", api_key=api.key, max_retries=0)


@pytest.mark.parametrize("way", ["endpoint", "base_url", "v1"])
async def test_azure_clients_upload_order_and_cancel(api: Api, order: dict[str, Any], way: str) -> None:
    async with azure(api, way) as client:
        file = await upload(client)
        job = await client.fine_tuning.jobs.create(**changed(order, {"training_file": file.id}))
        assert (await client.fine_tuning.jobs.retrieve(job.id)).status == "validating_files"
        assert [entry.id async for entry in client.fine_tuning.jobs.list(limit=1)] == [job.id]
        assert (await client.fine_tuning.jobs.cancel(job.id)).status == "cancelled"
        assert (await client.files.content(file.id)).read() == ROW
        assert (await client.files.delete(file.id)).deleted
        with pytest.raises(NotFoundError) as raised:
            await client.files.retrieve(file.id)
        assert raised.value.code == "not_found"


@pytest.mark.parametrize("way", ["endpoint", "base_url", "v1"])
async def test_azure_clients_without_a_key_are_refused(api: Api, way: str) -> None:
    async with azure(Api(api.url, "rft_abcdefabcdef_guess", api.settings, api.messages), way) as stranger:
        with pytest.raises(AuthenticationError) as raised:
            await stranger.files.create(file=("rows.jsonl", io.BytesIO(ROW * 100_000)), purpose="fine-tune")
        assert raised.value.code == "invalid_api_key"
    assert not list(api.settings.files_dir.glob("*"))


async def test_both_spellings_are_one(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, headers={"API-Key": api.key}, timeout=60.0) as caller:
        ours = await caller.get("/v1/files")
        assert ours.status_code == 200
        for path in ("/openai/v1/files", "/openai/files", f"/openai/v1/files?api-version={VERSION}"):
            assert (await caller.get(path)).json() == ours.json()
        for path in ("/openai/v1/nothing", "/openai/deployments/gpt", "/openai/deployments/gpt/embeddings"):
            assert (await caller.get(path)).json()["error"]["code"] == "unknown_url", path
        chat = await caller.get("/openai/deployments/gpt/chat/completions")
        assert (chat.json()["error"]["code"], chat.headers["allow"]) == ("method_not_allowed", "POST")


async def test_strangers_learn_nothing_by_the_other_spelling(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, timeout=60.0) as stranger:
        for path in ("/openai/v1/files", "/openai/files", "/openai/v1/nothing", "/openai/v1", "/openai/x"):
            assert (await stranger.get(path)).status_code == 401, path
        for path in ("/openai", "/openaiv1/files"):  # Not below it: these are nobody's.
            assert (await stranger.get(path)).status_code == 404, path


async def test_a_bearer_key_counts_before_the_other(api: Api) -> None:
    async with httpx.AsyncClient(base_url=f"{api.url}/v1", timeout=60.0) as caller:
        for headers, status in (
            ({"authorization": f"Bearer {api.key}", "api-key": "wrong"}, 200),
            ({"authorization": "Bearer wrong", "api-key": api.key}, 401),
            ({"authorization": "Basic x", "api-key": api.key}, 200),
            ({"api-key": ""}, 401),
        ):
            assert (await caller.get("/files", headers=headers)).status_code == status, headers
