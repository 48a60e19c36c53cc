"""`POST /v1/chat/completions` with the official SDK, over the engine that samples in a process of its own."""

import asyncio
import io
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import torch
from openai import (
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    pydantic_function_tool,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from peft import PeftModel
from pydantic import BaseModel, ConfigDict, Field
from transformers import AutoModelForCausalLM, PreTrainedModel

from rft.chat.template_format import TemplateChatFormat
from rft.core.dataset import DatasetRow, parse_row
from rft.engines.tokenizer import load_tokenizer, open_model_chat
from tests.shared.engine_contract import plain_logprobs
from tests.shared.served_models import ServedPlatform

QUESTION: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "How much?"}]
TOOL: Any = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}


@pytest.fixture(scope="module")
def chat_format(base_model: Path) -> TemplateChatFormat:
    return open_model_chat(str(base_model), load_tokenizer(str(base_model))).chat_format


async def greedy(client: AsyncOpenAI, model: str = "tiny", **more: Any) -> ChatCompletion:
    wanted: Any = {"messages": QUESTION, "temperature": 0, "max_completion_tokens": 24, **more}
    return await client.chat.completions.create(model=model, **wanted)


def plain_greedy(model: torch.nn.Module, prompt: list[int], wanted: list[int]) -> bool:
    """Whether these are the most likely tokens, one after the other."""
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([[*prompt, *wanted]])).logits[0, len(prompt) - 1 : -1]
    return logits.argmax(-1).tolist() == wanted


def ids(done: ChatCompletion) -> tuple[list[int], list[int]]:
    """Prompt and first choice, as `return_token_ids` gives them."""
    assert done.model_extra is not None
    assert done.choices[0].model_extra is not None
    return done.model_extra["prompt_token_ids"], done.choices[0].model_extra["token_ids"]


async def test_base_model_and_checkpoints_answer_with_their_own_weights_from_one_process(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path, chat_format: TemplateChatFormat
) -> None:
    """All at once: each waits for its turn."""
    names = ["tiny", platform.checkpoint(2), platform.checkpoint(6), platform.model]
    asked = [*names, *reversed(names)]
    done = await asyncio.gather(*(greedy(client, name, extra_body={"return_token_ids": True}) for name in asked))

    def weights(step: int | None) -> torch.nn.Module:
        base: PreTrainedModel = AutoModelForCausalLM.from_pretrained(base_model)
        return base.eval() if step is None else PeftModel.from_pretrained(base, str(platform.folder(step))).eval()

    plain = [weights(step) for step in (None, 2, 6, 6)]
    row = parse_row(json.dumps({"messages": QUESTION}), line_number=1, index=0)
    assert isinstance(row, DatasetRow)
    for reply, model in zip(done, [*plain, *reversed(plain)], strict=True):
        prompt, sampled = ids(reply)
        assert prompt == chat_format.prompt_ids(row.messages, ())
        assert plain_greedy(model, prompt, sampled)
    assert len({tuple(ids(reply)[1]) for reply in done}) == 3
    assert len(list(platform.api.settings.serving_dir.iterdir())) == 1


async def test_a_reply_is_what_the_sdk_types(client: AsyncOpenAI, chat_format: TemplateChatFormat) -> None:
    done = await greedy(client, extra_body={"return_token_ids": True})
    assert (done.object, done.model, done.id[:9]) == ("chat.completion", "tiny", "chatcmpl-")
    (choice,) = done.choices
    prompt, sampled = ids(done)
    parsed = chat_format.parse(sampled, call_id_seed=0)
    assert choice.message.role == "assistant"
    assert choice.message.content == parsed.content
    assert choice.finish_reason == ("stop" if sampled[-1] in chat_format.stop_token_ids else "length")
    assert done.usage is not None
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (len(prompt), len(sampled))
    assert done.usage.total_tokens == len(prompt) + len(sampled)


async def test_a_stream_tells_the_same(client: AsyncOpenAI) -> None:
    whole = await greedy(client, n=2)
    chunks: list[ChatCompletionChunk] = []
    stream: Any = await greedy(client, n=2, stream=True, stream_options={"include_usage": True})
    async for chunk in stream:
        assert isinstance(chunk, ChatCompletionChunk)
        chunks.append(chunk)
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    for choice in whole.choices:
        own = [part for chunk in chunks for part in chunk.choices if part.index == choice.index]
        assert own[0].delta.role == "assistant"
        assert "".join(part.delta.content or "" for part in own) == choice.message.content
        assert [part.finish_reason for part in own if part.finish_reason] == [choice.finish_reason]
    assert len(chunks) > 6, "its text came in parts"
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage


async def test_the_wire_has_null_where_the_contract_has_it(client: AsyncOpenAI) -> None:
    raw: Any = client.with_raw_response.chat.completions
    asked: dict[str, Any] = {"model": "tiny", "messages": QUESTION, "max_completion_tokens": 4}
    (choice,) = json.loads((await raw.create(**asked)).content)["choices"]
    assert set(choice) == {"index", "finish_reason", "message", "logprobs"}
    assert set(choice["message"]) == {"role", "content", "refusal"}
    assert choice["message"]["refusal"] is choice["logprobs"] is None
    stream = (await raw.create(**asked, stream=True)).http_response
    lines = [line.removeprefix("data: ") async for line in stream.aiter_lines() if line]
    parts = [json.loads(line)["choices"][0] for line in lines[:-1]]
    assert {frozenset(part) for part in parts} == {frozenset({"index", "delta", "finish_reason", "logprobs"})}
    assert [part["finish_reason"] for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert set(parts[0]["delta"]) == {"role", "content"}


async def test_seeds_choices_and_nucleus(client: AsyncOpenAI) -> None:
    async def texts(**more: Any) -> list[str | None]:
        wanted: dict[str, Any] = {"n": 3, "temperature": 1, "seed": 5, **more}
        done = await greedy(client, "tiny", **wanted)
        assert [choice.index for choice in done.choices] == [0, 1, 2]
        return [choice.message.content for choice in done.choices]

    first, again, other, likeliest, only = await asyncio.gather(
        texts(), texts(), texts(seed=6), texts(top_p=0), texts(temperature=0)
    )
    assert first == again != other
    assert len(set(first)) == 3
    assert likeliest == only


async def test_there_are_up_to_128_choices(client: AsyncOpenAI) -> None:
    done = await greedy(client, n=128, temperature=1, max_completion_tokens=2)
    assert [choice.index for choice in done.choices] == list(range(128))


async def test_log_probabilities_are_those_of_the_model(client: AsyncOpenAI, base_model: Path) -> None:
    done = await greedy(client, temperature=1, logprobs=True, extra_body={"return_token_ids": True})
    logprobs = done.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    prompt, sampled = ids(done)
    expected = plain_logprobs(AutoModelForCausalLM.from_pretrained(base_model).eval(), prompt, tuple(sampled))
    told = torch.tensor([token.logprob for token in logprobs.content])
    torch.testing.assert_close(told, expected, atol=1e-4, rtol=0)
    assert all(bytes(token.bytes or ()).decode(errors="replace") == token.token for token in logprobs.content)


async def test_a_stop_sequence_ends_the_answer_and_is_left_out(client: AsyncOpenAI) -> None:
    whole = (await greedy(client)).choices[0].message.content
    assert whole is not None
    stop = whole[8:11]
    stopped = await greedy(client, stop=[stop])
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].message.content == whole[: whole.index(stop)]


class Found(BaseModel):
    """A random model would never say so by itself."""

    model_config = ConfigDict(extra="forbid")
    state: Literal["open", "shut"]
    number: Annotated[int, Field(ge=0, le=9)]


async def test_an_answer_fits_the_schema_that_was_asked_for(client: AsyncOpenAI, platform: ServedPlatform) -> None:
    """By the SDK's own helpers, of the base model and of a checkpoint, whole and as a stream."""
    wanted: Any = {"messages": QUESTION, "response_format": Found, "tools": [], "max_completion_tokens": 400}
    for model in ("tiny", platform.checkpoint(2)):
        done = await client.chat.completions.parse(model=model, seed=1, **wanted)
        assert isinstance(done.choices[0].message.parsed, Found)
        async with client.chat.completions.stream(model=model, seed=1, **wanted) as stream:
            events = [event async for event in stream]
        told = [event.delta for event in events if event.type == "content.delta"]
        assert "".join(told) == done.choices[0].message.content
    response = await client.responses.parse(model="tiny", input="How much?", text_format=Found)
    assert isinstance(response.output_parsed, Found)
    assert response.text is not None
    assert response.text.format is not None
    assert response.text.format.type == "json_schema"
    plain: Any = {"type": "json_object"}
    with pytest.raises(APIStatusError, match="max_completion_tokens"):
        await greedy(client, response_format=plain, max_completion_tokens=0)
    done = await client.chat.completions.create(
        model="tiny", messages=QUESTION, response_format=plain, seed=2, max_completion_tokens=400
    )
    content = done.choices[0].message.content or ""
    assert content.startswith("{")
    assert done.choices[0].finish_reason == "length" or isinstance(json.loads(content), dict)


async def test_a_call_is_made_where_one_is_forced(client: AsyncOpenAI, platform: ServedPlatform) -> None:
    """A random model would never make one by itself."""
    tools: Any = [pydantic_function_tool(Found, name="found"), pydantic_function_tool(Found, name="lost")]
    named: Any = {"type": "function", "function": {"name": "lost"}}
    allowed: Any = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "found"}}]},
    }
    wanted: Any = {"messages": QUESTION, "tools": tools, "max_completion_tokens": 400}
    choices: list[tuple[Any, set[str]]] = [("required", {"found", "lost"}), (named, {"lost"}), (allowed, {"found"})]
    for model in ("tiny", platform.checkpoint(2)):
        for choice, names in choices:
            done = await client.chat.completions.parse(model=model, tool_choice=choice, **wanted)
            message = done.choices[0].message
            (called,) = [call.function for call in message.tool_calls or []]
            assert called.name in names
            assert isinstance(called.parsed_arguments, Found)
            assert done.choices[0].finish_reason == "tool_calls"
    async with client.chat.completions.stream(model="tiny", tool_choice=named, **wanted) as stream:
        message = (await stream.get_final_completion()).choices[0].message
    (call,) = list(message.tool_calls or [])
    assert isinstance(call.function.parsed_arguments, Found)
    messages: Any = [*QUESTION, message, {"role": "tool", "tool_call_id": call.id, "content": "7"}]
    then = await client.chat.completions.create(model="tiny", messages=messages, tools=tools, max_completion_tokens=3)
    assert then.usage is not None
    assert then.usage.prompt_tokens_details is not None
    assert (then.usage.prompt_tokens_details.cached_tokens or 0) > 0, "the call is known as it was sampled"


async def test_the_length_is_kept_to(client: AsyncOpenAI) -> None:
    done = await greedy(client, max_completion_tokens=3)
    assert done.choices[0].finish_reason == "length"
    assert done.usage is not None
    assert done.usage.completion_tokens == 3


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "user", "content": "word " * 600}]}, "messages", "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]", None),
        ({"messages": [*QUESTION, {"role": "assistant", "tool_calls": [CALL]}]}, "messages", None),
        ({"messages": [*QUESTION, {"role": "tool", "content": "7", "tool_call_id": "call_1"}]},
         "messages[2].tool_call_id", None),
        ({"tools": [{**TOOL, "function": {"name": "f", "parameters": {"type": "strange"}}}]},
         "tools[0].function.parameters", None),
        ({"tools": [TOOL, TOOL]}, "tools[1].function.name", None),
        ({"messages": [*QUESTION, {"role": "assistant", "tool_calls": [CALL, CALL]},
                       {"role": "tool", "content": "7", "tool_call_id": CALL["id"]}]}, "messages[2].tool_calls", None),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", None),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools":
            {"mode": "auto", "tools": [{"type": "function", "function": {"name": []}}]}}}, "tool_choice", None),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "nothing"}}}, "tool_choice", None),
        ({"tools": [TOOL], "tool_choice": {"type": "custom", "custom": {"name": "search"}}}, "tool_choice", None),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}},
         "response_format", None),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strange"}}}},
         "response_format.json_schema.schema", None),
        ({"response_format": {"type": "yaml"}}, "response_format", None),
        ({"logprobs": True, "top_logprobs": 5}, "top_logprobs", None),
        ({"frequency_penalty": 0.5}, "frequency_penalty", None),
        ({"extra_body": {"moderation": {"model": "omni-moderation-latest"}}}, "moderation", None),
        ({"store": True}, "store", None),
        ({"temperature": 3}, "temperature", None),
        ({"top_p": -0.1}, "top_p", None),
        ({"n": 0}, "n", None),
        ({"n": 129}, "n", None),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_names_its_field(
    client: AsyncOpenAI, changes: dict[str, Any], param: str, code: str | None
) -> None:
    with pytest.raises(BadRequestError) as raised:
        await greedy(client, **changes)
    assert (raised.value.param, raised.value.code) == (param, code or "invalid_value")


async def test_what_changes_no_answer_is_accepted(client: AsyncOpenAI) -> None:
    plain = await greedy(client)
    assert (await greedy(client, store=False, metadata={"a": "b"}, user="me")).choices == plain.choices


async def test_a_model_that_is_none_or_no_longer_kept_is_not_found(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    for name, why in (("gpt-5", "does not exist"), (platform.checkpoint(4), "no longer kept")):
        with pytest.raises(NotFoundError, match=why) as raised:
            await greedy(client, name)
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")
        with pytest.raises(NotFoundError):
            await greedy(client, name, stream=True)


async def test_a_model_that_nobody_has_built_says_so(client: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError, match="first job") as raised:
        await greedy(client, "starter")
    assert raised.value.param == "model"


async def test_an_answered_call_goes_on(client: AsyncOpenAI) -> None:
    """With an id that no answer of ours had: the conversation is rendered from its text."""
    messages = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "7", "tool_call_id": "call_1"},
    ]
    done = await greedy(client, messages=messages, tools=[TOOL])
    assert done.usage is not None
    assert done.usage.prompt_tokens_details is not None
    assert done.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_broken_request_leaves_the_process_alone(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    with pytest.raises(APIStatusError):
        await client.post("/chat/completions", cast_to=object, content=io.BytesIO(b"{").read())
    assert (await greedy(client)).choices


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
async def test_who_was_answered_before_is_not_once_the_key_is_revoked(
    platform: ServedPlatform, client: AsyncOpenAI, path: str
) -> None:
    """A model is asked while the key of somebody known is looked up; the reply waits for that."""
    asked: Any = {"model": "tiny"} | (
        {"messages": QUESTION, "max_completion_tokens": 16}
        if path == "/chat/completions"
        else {"input": "How much?", "max_output_tokens": 16}
    )
    for body in (asked, {**asked, "stream": True}, {"model": 7}, {**asked, "model": "nobody"}):
        made: Any = await client.post("/dashboard/keys", cast_to=object, body={"name": "for a while"})
        async with platform.sdk().with_options(api_key=made["key"]) as guest:
            for _ in range(2):
                assert await guest.post(path, cast_to=object, body=asked)
            await client.delete(f"/dashboard/keys/{made['id']}", cast_to=object)
            for _ in range(2):
                with pytest.raises(AuthenticationError) as raised:
                    await guest.post(path, cast_to=object, body=body)
                assert raised.value.code == "invalid_api_key"
    assert (await greedy(client)).choices
