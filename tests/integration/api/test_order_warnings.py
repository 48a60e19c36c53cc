"""What an order is warned of although it is accepted: nobody answers at a URL, its model cannot call a tool."""

import copy
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import JsonValue

from rft.platform.jobs.order_warnings import order_warnings
from rft.platform.orders.schemas import JobCreate
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint

Warnings = list[tuple[str, dict[str, JsonValue]]]


class Router(ScriptedEndpoint):
    """A server with one route, as its framework has it: it knows what it takes and what it does not."""

    async def answer(self, call: ReceivedCall) -> HttpAnswer:
        if call.path != "/search":
            return HttpAnswer(404, b'{"detail":"Not Found"}')
        assert call.method == "OPTIONS", "nothing else may be asked for before the job runs"
        return HttpAnswer(405, b"", {"allow": "POST"})


@pytest.fixture
async def router() -> AsyncIterator[LoopbackEndpoint]:
    async with LoopbackEndpoint(Router()) as server:
        yield server


async def warnings_of(client: AsyncOpenAI, order: dict[str, Any], *codes: str) -> Warnings:
    job = await client.fine_tuning.jobs.create(**order)
    assert job.status == "validating_files"
    events: list[Any] = (await client.fine_tuning.jobs.list_events(job.id)).data
    # `fields_without_effect` and the like are others' affair.
    told = [(event.message, event.data) for event in events if event.level == "warn"]
    return [(message, data) for message, data in told if data["code"].startswith(codes or ("endpoint_", "starter_"))]


async def test_an_unreachable_endpoint_is_a_warning(
    client: AsyncOpenAI, order: dict[str, Any], refused_url: str
) -> None:
    reinforcement = order["method"]["reinforcement"]
    reinforcement["tools"][1]["server_url"] = f"{refused_url}cat?key=secret"
    reinforcement["tools"][0]["callback_url"] = f"{refused_url}cat?key=secret"
    reinforcement["grader"]["url"] = "http://no-such-host.invalid/grade"
    tools, grader = sorted(await warnings_of(client, order), key=lambda warning: str(warning[1]["endpoints"]))
    assert tools[1] == {
        "code": "endpoint_unreachable",
        "params": ["method.reinforcement.tools[1].server_url", "method.reinforcement.tools[0].callback_url"],
        "endpoints": ["cat", "search"],
        "failure": "connect_error",
    }
    assert tools[0].startswith("Nobody answers where the tool 'cat' and the tool 'search' should be: http://127.0.0.1:")
    assert "secret" not in tools[0]
    assert (grader[1]["code"], grader[1]["params"]) == ("endpoint_unreachable", ["method.reinforcement.grader.url"])
    assert "until somebody does" in grader[0]


@pytest.mark.parametrize("probe_timeout_s", [1.0])
async def test_endpoints_that_never_answer_are_a_warning(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    """None of the order's answers: on a busy machine, a second may be too short for one that does."""
    reinforcement = order["method"]["reinforcement"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        for endpoint in reinforcement["tools"]:
            endpoint["server_url"] = url
        reinforcement["grader"]["url"] = url
        ((message, data),) = await warnings_of(client, order)
    assert "'search'" in message
    assert data["endpoints"] == ["search", "cat", "judge"]
    assert data["failure"] == "timeout"


async def test_a_url_that_is_wrong_by_one_letter_is_a_warning_and_the_right_one_is_none(
    client: AsyncOpenAI, order: dict[str, Any], router: LoopbackEndpoint
) -> None:
    tools = order["method"]["reinforcement"]["tools"]
    tools[0]["server_url"], tools[1]["server_url"] = f"{router.base_url}/serch", f"{router.base_url}/search"
    ((message, data),) = await warnings_of(client, order)
    assert data == {
        "code": "endpoint_not_found",
        "params": ["method.reinforcement.tools[0].server_url"],
        "endpoints": ["search"],
        "failure": "endpoint_not_found",
        "status": 404,
    }
    assert f"{router.base_url}/serch answered 404 Not Found to OPTIONS" in message
    assert "Check the URL" in message


async def test_the_starter_with_tools_it_cannot_call_is_a_warning(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    order["model"] = "starter"
    tools = order["method"]["reinforcement"]["tools"]
    assert await warnings_of(client, order) == []
    tools.append({**tools[0], "name": "open_page", "description": "Opens a page."})
    ((message, data),) = await warnings_of(client, order)
    assert data == {"code": "starter_tools", "tools": ["open_page"], "known": ["cat", "list", "search"]}
    assert "it will never call open_page" in message
    order["model"] = "tiny"
    assert await warnings_of(client, order) == []


async def test_integrations_and_an_empty_suffix_are_taken_with_a_warning(
    client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    integrations: Any = [{"type": "wandb", "wandb": {"project": "p"}}, "odd"]
    job: Any = await client.fine_tuning.jobs.create(**order, integrations=integrations, suffix="")
    shown = job.to_dict(warnings=False)
    assert (shown["integrations"], shown["user_provided_suffix"]) == (integrations, None)
    events: list[Any] = (await client.fine_tuning.jobs.list_events(job.id)).data
    told = {event.data["code"]: event for event in events if event.level == "warn"}
    assert told["integrations_not_sent"].data["integrations"] == ["wandb", "of no type"]
    assert told["integrations_not_sent"].message.startswith("Nothing is sent to the job's integrations (wandb, of no")
    assert told["empty_suffix"].message == "The job's suffix is empty and counts as none."


async def test_a_job_that_nothing_is_validated_on_is_told_at_once(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    ((message, data),) = await warnings_of(client, order, "no_validation")
    assert data == {"code": "no_validation", "fields": ["validation_file"]}
    assert message == "Without a validation file training rewards choose the checkpoint."
    validated = {**order, "validation_file": order["training_file"]}
    assert await warnings_of(client, validated, "no_validation") == []


def test_rewards_that_only_compare_the_rollouts_of_a_group_are_said_to_choose_no_best_checkpoint(
    order: dict[str, Any],
) -> None:
    asked = {**order, "method": copy.deepcopy(order["method"]), "validation_file": order["training_file"]}
    asked["method"]["reinforcement"]["grader"] = {"type": "ruler", "model": "judge-1"}
    told = {warning.code: warning for warning in order_warnings(JobCreate.model_validate(asked), [])}
    assert told["relative_rewards"].data == {"fields": ["method.reinforcement.grader"]}
    assert "relative_rewards" not in {one.code for one in order_warnings(JobCreate.model_validate(order), [])}


async def test_no_integrations_and_no_suffix_are_nothing_to_warn_of(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    job = await client.fine_tuning.jobs.create(**order, integrations=[], suffix="x")
    events: list[Any] = (await client.fine_tuning.jobs.list_events(job.id)).data
    codes = {event.data["code"] for event in events if event.data}
    assert not codes & {"integrations_not_sent", "empty_suffix"}


async def test_a_template_that_no_answer_fills_is_a_warning(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    part = {"type": "string_check", "input": "{{ sample.output_json.n }}", "reference": "{{item.n}}", "operation": "eq"}
    text = {**part, "input": "{{ sample.output_text }}"}
    reinforcement = order["method"]["reinforcement"]
    reinforcement["grader"] = {"type": "multi", "graders": {"n": part, "text": text}, "calculate_output": "n + text"}
    code = "output_json_is_null"
    ((message, data),) = await warnings_of(client, order, code)
    assert data == {"code": code, "fields": ["method.reinforcement.grader.graders.n.input"]}
    assert "Order a response_format" in message
    reinforcement["response_format"] = {"type": "json_object"}
    assert await warnings_of(client, order, code) == []


async def test_a_template_that_names_calls_of_an_answer_without_any_is_a_warning(
    client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    named = "{{sample.choices[0].message.tool_calls[0].function.name}}"
    grader = {"type": "string_check", "input": named, "reference": "search", "operation": "eq"}
    order["method"]["reinforcement"]["grader"] = grader
    code = "tool_calls_are_empty"
    ((message, data),) = await warnings_of(client, order, code)
    assert data == {"code": code, "fields": ["method.reinforcement.grader.input"]}
    assert "are in sample.output_tools" in message
    grader["input"] = "{{sample.output_tools[0].function.name}}"
    assert await warnings_of(client, order, code) == []


async def test_a_variable_in_single_braces_is_a_warning(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    grader = {"type": "string_check", "input": "{sample.output_text}", "reference": "{{item.n}}", "operation": "eq"}
    order["method"]["reinforcement"]["grader"] = grader
    code = "single_braces"
    ((message, data),) = await warnings_of(client, order, code)
    assert data == {"code": code, "fields": ["method.reinforcement.grader.input"]}
    assert "{{item.answer}}" in message
    grader["input"] = "{{sample.output_text}}"
    assert await warnings_of(client, order, code) == []


async def test_metadata_that_names_no_test_file_of_ours_is_the_customers_own(
    client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    foreign = await client.files.create(file=("results.jsonl", b'{"item": {}}\n'), purpose="evals")
    for named in ("file-abc", foreign.id):
        order["metadata"] = {"test_file": named}
        job: Any = await client.fine_tuning.jobs.create(**order)
        assert (job.metadata, job.test_file) == (order["metadata"], None)
        ((message, data),) = await warnings_of(client, order, "test_file_ignored")
        assert data == {"code": "test_file_ignored", "fields": ["metadata.test_file"]}
        assert message.startswith(f"'{named}', the test_file of the metadata, is no file of purpose 'fine-tune' here")


async def test_metadata_that_names_a_file_which_a_job_would_fail_for_is_the_customers_own(
    client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    row = b'{"messages": [{"role": "user", "content": "How much?"}]}\n'
    stranger = row.replace(b"}]}", b'}], "tools": [{"type": "function", "function": {"name": "stranger"}}]}')
    for content in (row * 1001, row + b"{oops\n", b"\n", stranger):
        file = await client.files.create(file=("holdout.jsonl", content), purpose="fine-tune")
        order["metadata"] = {"test_file": file.id}
        job: Any = await client.fine_tuning.jobs.create(**order)
        assert (job.metadata, job.test_file) == (order["metadata"], None)
        assert len(await warnings_of(client, order, "test_file_ignored")) == 1
