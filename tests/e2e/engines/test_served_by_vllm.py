"""Customers' requests through the whole platform to a real vLLM server: base model, checkpoints, what is taken away."""

import asyncio
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rft.egress.client import HttpClient
from rft.egress.endpoint import to_header_list
from rft.egress.reply import Reply
from rft.starter.tokenizer import build_tokenizer
from tests.e2e.engines.conftest import HEAD_SIZE, KEY, RealServer
from tests.shared.by_hand import tiny_model
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.engine_contract import adapter, plain_logprobs
from tests.shared.saved_adapters import save_adapters
from tests.shared.served_models import ServedPlatform, served_platform

QUESTION: Any = [{"role": "user", "content": "How much is seven and five?"}]
TOKENS = 12
LARGEST_GAP = 1e-4
RETRIES = 5
"""A starved machine may have its server say that it is not there now: then one comes again, as the SDK does."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeModel = Callable[[], PreTrainedModel]


@pytest.fixture(scope="module")
def make_model() -> MakeModel:
    tokenizer: PreTrainedTokenizerBase = build_tokenizer()
    return lambda: tiny_model(tokenizer, head_size=HEAD_SIZE)


@pytest.fixture(scope="module")
def platform(
    emptied_database: EmptiedDatabase,
    tmp_path_factory: pytest.TempPathFactory,
    real_server: RealServer,
    make_model: MakeModel,
) -> Iterator[ServedPlatform]:
    changes: Any = {"engine": "vllm", "vllm_servers": [real_server.url], "vllm_api_key": KEY}
    with served_platform(emptied_database, tmp_path_factory.mktemp("home"), real_server.model, **changes) as running:
        save_adapters(running, real_server.model, make_model)
        yield running


async def answer(client: AsyncOpenAI, model: str) -> ChatCompletion:
    """The likeliest tokens, with their ids."""
    more = {"return_token_ids": True}
    return await client.chat.completions.create(
        model=model,
        messages=QUESTION,
        temperature=0.0,
        max_completion_tokens=TOKENS,
        logprobs=True,
        extra_body=more,
    )


def ids(told: ChatCompletion) -> tuple[list[int], tuple[int, ...]]:
    """Of the prompt and of the answer."""
    fields: Any = told.model_dump()
    return fields["prompt_token_ids"], tuple(fields["choices"][0]["token_ids"])


def largest_gap(told: ChatCompletion, model: torch.nn.Module) -> float:
    """Between what was told of its tokens and a plain forward pass of the model."""
    prompt, sampled = ids(told)
    logprobs = told.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    own = torch.tensor([token.logprob for token in logprobs.content])
    return float((own - plain_logprobs(model.eval(), prompt, sampled)[: len(own)]).abs().max())


async def server_says(server: RealServer, path: str, body: dict[str, Any]) -> bytes:
    """A request to the server itself, past the platform."""
    headers = to_header_list({"authorization": f"Bearer {KEY}", "content-type": "application/json"})
    async with HttpClient() as http:
        reply = await http.ask("POST", server.url + path, json.dumps(body).encode(), headers=headers, timeout_s=120)
    assert isinstance(reply, Reply)
    assert reply.status == 200, reply.body
    return reply.body


async def test_the_base_model_and_two_checkpoints_answer_at_once_each_as_itself(
    platform: ServedPlatform, make_model: MakeModel, tmp_path: Path
) -> None:
    adapted = {step: adapter(tmp_path / f"v{step}", make_model, seed=step) for step in (2, 6)}
    names = {"tiny": make_model(), platform.checkpoint(2): adapted[2], platform.model: adapted[6]}
    async with platform.sdk(max_retries=RETRIES) as client:
        told = await asyncio.gather(*(answer(client, name) for name in names))
    for one, model in zip(told, names.values(), strict=True):
        assert largest_gap(one, model) <= LARGEST_GAP
    assert len({ids(one)[1] for one in told}) == len(names), "each says something else"
    assert len({tuple(ids(one)[0]) for one in told}) == 1, "to the same prompt"


async def test_a_stream_and_the_responses_shape_say_the_same(platform: ServedPlatform) -> None:
    async with platform.sdk(max_retries=RETRIES) as client:
        whole = await answer(client, platform.model)
        pieces: list[str] = []
        stream = await client.chat.completions.create(
            model=platform.model, messages=QUESTION, temperature=0.0, max_completion_tokens=TOKENS, stream=True
        )
        async for chunk in stream:
            pieces += [choice.delta.content or "" for choice in chunk.choices]
        response = await client.responses.create(
            model=platform.model,
            input=QUESTION,
            temperature=0.0,
            max_output_tokens=TOKENS,
            store=False,
        )
    text = whole.choices[0].message.content
    assert text
    assert "".join(pieces) == text
    assert response.output_text == text
    assert whole.usage is not None
    assert response.usage is not None
    assert response.usage.input_tokens == whole.usage.prompt_tokens == len(ids(whole)[0])


async def test_an_adapter_that_was_taken_away_answers_in_a_vllm_server(
    platform: ServedPlatform, real_server: RealServer, tmp_path: Path
) -> None:
    async with platform.sdk(max_retries=RETRIES) as client:
        served = await answer(client, platform.checkpoint(2))
        content = await client.get(f"/models/{platform.checkpoint(2)}/adapter", cast_to=bytes)
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        files.extractall(tmp_path)
    prompt, sampled = ids(served)
    await server_says(real_server, "/v1/load_lora_adapter", {"lora_name": "taken", "lora_path": str(tmp_path)})
    try:
        body = {"model": "taken", "prompt": prompt, "temperature": 0, "max_tokens": TOKENS, "return_token_ids": True}
        reply = json.loads(await server_says(real_server, "/v1/completions", body))
    finally:
        await server_says(real_server, "/v1/unload_lora_adapter", {"lora_name": "taken"})
    assert tuple(reply["choices"][0]["token_ids"][: len(sampled)]) == sampled
