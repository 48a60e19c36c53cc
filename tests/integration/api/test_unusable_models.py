"""A base model is looked at when a job is ordered: what cannot carry tools is refused in words."""

import json
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from rft.chat.template import fingerprint
from rft.core.chat_spec import ChatSpec, JobChat
from rft.platform.jobs.repository import JobRepository
from rft.platform.orders.model_checks import look_at_model
from tests.shared.forked_checks import fork_checks
from tests.shared.running_api import Api

WITH_TOOLS = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\\n' if add_generation_prompt -}}
"""
WITHOUT_TOOLS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
RAISING = "{# <tool_call> #}{{ raise_exception('Conversation roles must alternate') }}"
BROKEN = "{# <tool_call> #}{% if %}"


def write_model(folder: Path, template: str) -> None:
    """A tokenizer of bytes with a chat template: all that is looked at."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<|im_start|>", "<|im_end|>", "<tool_call>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    (folder / "chat_template.jinja").write_text(template)


@pytest.fixture
def forked_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_checks(monkeypatch)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (WITHOUT_TOOLS, "has no place for tool calls"),
        (RAISING, "Conversation roles must alternate"),
        (BROKEN, "reading the chat template failed"),
    ],
)
async def test_a_model_that_cannot_use_tools_is_refused_when_the_job_is_ordered(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path, template: str, reason: str
) -> None:
    write_model(base_model, template)
    with pytest.raises(BadRequestError, match=reason) as refused:
        await client.fine_tuning.jobs.create(**order)
    assert (refused.value.code, refused.value.param) == ("unusable_model", "model")
    assert "The model 'tiny' cannot be trained to use tools" in str(refused.value)


async def test_a_model_with_another_template_is_looked_at_anew(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path
) -> None:
    write_model(base_model, WITHOUT_TOOLS)
    with pytest.raises(BadRequestError):
        await client.fine_tuning.jobs.create(**order)
    write_model(base_model, WITH_TOOLS)
    job = await client.fine_tuning.jobs.create(**order)
    assert job.status == "validating_files"


async def test_a_job_keeps_the_template_that_was_found_when_it_was_ordered(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path, api: Api
) -> None:
    write_model(base_model, WITH_TOOLS)
    job = await client.fine_tuning.jobs.create(**order)
    async with await psycopg.AsyncConnection.connect(api.settings.database_url or "") as connection:
        stored = await JobRepository(connection).get(job.id)
    assert stored is not None
    assert stored.chat == JobChat(template_fingerprint=fingerprint(WITH_TOOLS))


THINKING = "{%- if enable_thinking is not defined or enable_thinking %}{% endif %}" + WITH_TOOLS


@pytest.mark.parametrize(("template", "has_effect"), [(WITH_TOOLS, False), (THINKING, True)])
async def test_an_effort_without_a_switch_is_told_to_have_no_effect(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path, template: str, has_effect: bool
) -> None:
    write_model(base_model, template)
    order["method"]["reinforcement"]["hyperparameters"] = {"reasoning_effort": "none"}
    job = await client.fine_tuning.jobs.create(**order)
    events = await client.fine_tuning.jobs.list_events(job.id)
    told = [event.message for event in events.data if "hyperparameters.reasoning_effort" in event.message]
    assert len(told) == (0 if has_effect else 1)
    assert all("have no effect here" in message for message in told)


WITHOUT_THOUGHTS = """\
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '\\n' + message.content -}}
{%- for call in message.tool_calls or [] -%}
{{- '{"name": "' + call.function.name + '", "parameters": ' + (call.function.arguments | tojson) + '}' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{{- '<|start_header_id|>assistant\\n' if add_generation_prompt -}}
"""


@pytest.mark.parametrize(("template", "has_effect"), [(WITHOUT_THOUGHTS, False), (WITH_TOOLS, True)])
async def test_a_limit_of_thoughts_that_a_chat_format_does_not_mark_is_told_to_have_no_effect(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path, template: str, has_effect: bool
) -> None:
    write_model(base_model, template)
    order["method"]["reinforcement"]["budgets"] = {"max_reasoning_tokens": 64}
    job = await client.fine_tuning.jobs.create(**order)
    events = await client.fine_tuning.jobs.list_events(job.id)
    told = [event.message for event in events.data if "budgets.max_reasoning_tokens" in event.message]
    assert len(told) == (0 if has_effect else 1)


async def test_what_cannot_be_looked_at_is_left_to_the_trainer(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path
) -> None:
    assert not (base_model / "tokenizer.json").exists()
    assert (await client.fine_tuning.jobs.create(**order)).status == "validating_files"


async def test_a_check_that_breaks_is_told_to_the_customer_and_keeps_no_template(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(base_model, WITH_TOOLS)
    monkeypatch.setattr(sys, "executable", str(base_model / "no-python-is-here"))
    job = await client.fine_tuning.jobs.create(**order)
    events = await client.fine_tuning.jobs.list_events(job.id)
    [told] = [event for event in events.data if "could not be checked" in event.message]
    assert (told.level, told.data) == ("warn", {"code": "model_not_checked", "model": "tiny"})
    assert "its check could not be started" in told.message
    assert "no-python-is-here" not in told.message, "paths are the operator's"
    async with await psycopg.AsyncConnection.connect(api.settings.database_url or "") as connection:
        stored = await JobRepository(connection).get(job.id)
    assert stored is not None
    assert stored.chat == JobChat()


@pytest.mark.usefixtures("forked_checks")
async def test_layers_that_the_engine_cannot_hold_are_refused_when_the_job_is_ordered(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path
) -> None:
    write_model(base_model, WITH_TOOLS)
    config = {"model_type": "qwen3_5_text", "num_hidden_layers": 4, "max_position_embeddings": 512}
    (base_model / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadRequestError, match="layers of the kind linear_attention") as refused:
        await client.fine_tuning.jobs.create(**order)
    assert (refused.value.code, refused.value.param) == ("unusable_model", "model")
    look = await look_at_model("tiny", str(base_model), ChatSpec(), "default", engine="vllm")
    assert look.check is not None
    assert look.check.engine_problem is not None
    shown: Any = (await client.models.retrieve("tiny")).to_dict()["base_model"]
    assert "layers of the kind linear_attention" in shown["problem"]
    assert (shown["engines"], shown["chat_format"], shown["auto"]["engine"]) == (["vllm"], "hermes", "vllm")
    assert (shown["auto"]["lora_rank"], shown["auto"]["lr_scheduler_type"]) == (16, "linear")
    assert {"q_proj", "down_proj"} <= set(shown["auto"]["lora_layers"])
    assert shown["memory"]["weights_bytes"] == 4 * shown["memory"]["parameters"] > 0
    assert shown["memory"]["sampling_bytes"] is None, "the engine cannot hold it"
    [listed] = [model for model in (await client.models.list()).data if model.id == "tiny"]
    assert listed.to_dict()["base_model"] is None, "a list looks at nothing"


@pytest.mark.usefixtures("forked_checks")
async def test_an_architecture_that_nobody_knows_is_refused_without_the_operators_paths(
    client: AsyncOpenAI, order: dict[str, Any], base_model: Path
) -> None:
    write_model(base_model, WITH_TOOLS)
    (base_model / "config.json").write_text('{"model_type": "of_tomorrow"}')
    with pytest.raises(BadRequestError, match="of_tomorrow") as refused:
        await client.fine_tuning.jobs.create(**order)
    assert refused.value.code == "unusable_model"
    assert str(base_model) not in str(refused.value)
