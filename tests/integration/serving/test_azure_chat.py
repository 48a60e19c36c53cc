"""Chat completions by Azure's clients: the deployment in the path is the model."""

from typing import Any

import httpx
import pytest
from openai import AsyncAzureOpenAI, NotFoundError

from tests.shared.served_models import ServedPlatform

VERSION = "2025-04-01-preview"
ASKED: Any = {"messages": [{"role": "user", "content": "How much?"}], "temperature": 0, "max_completion_tokens": 8}


def azure(platform: ServedPlatform, way: str, deployment: str) -> AsyncAzureOpenAI:
    """A client as Azure's documents set it up."""
    common: Any = {"api_key": platform.api.key, "api_version": VERSION, "max_retries": 0, "timeout": 600.0}
    match way:
        case "endpoint":
            return AsyncAzureOpenAI(azure_endpoint=platform.api.url, **common)
        case "base_url":
            return AsyncAzureOpenAI(base_url=f"{platform.api.url}/openai/v1", **common)
        case _:
            return AsyncAzureOpenAI(azure_endpoint=platform.api.url, azure_deployment=deployment, **common)


@pytest.mark.parametrize("way", ["endpoint", "base_url", "deployment"])
async def test_azure_clients_chat_with_base_models_and_checkpoints(platform: ServedPlatform, way: str) -> None:
    async with platform.sdk() as plain:
        for model in ("tiny", platform.checkpoint(2)):
            wanted = await plain.chat.completions.create(model=model, **ASKED)
            async with azure(platform, way, model) as client:
                reply = await client.chat.completions.create(model=model, **ASKED)
                assert (reply.model, reply.choices) == (model, wanted.choices)
                parts = [part async for part in await client.chat.completions.create(model=model, stream=True, **ASKED)]
                assert {part.model for part in parts} == {model}


@pytest.mark.parametrize("way", ["endpoint", "base_url", "deployment"])
async def test_a_deployment_that_is_not_there_is_an_unknown_model(platform: ServedPlatform, way: str) -> None:
    async with azure(platform, way, "org/unknown") as client:
        with pytest.raises(NotFoundError) as raised:
            await client.chat.completions.create(model="org/unknown", **ASKED)
    assert raised.value.code == "model_not_found"
    assert "'org/unknown'" in raised.value.message


async def test_the_deployment_in_the_path_counts_and_not_the_model_in_the_body(platform: ServedPlatform) -> None:
    async with azure(platform, "deployment", "tiny") as client:
        assert (await client.chat.completions.create(model="<ignored>", **ASKED)).model == "tiny"
    async with httpx.AsyncClient(headers={"api-key": platform.api.key}, timeout=600.0) as caller:
        url = f"{platform.api.url}/openai/deployments/tiny/chat/completions?api-version={VERSION}"
        reply = await caller.post(url, json=ASKED)
        assert (reply.status_code, reply.json()["model"]) == (200, "tiny")
