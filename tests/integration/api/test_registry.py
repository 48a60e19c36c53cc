"""Registered tools and graders: kept redacted and sealed, tried with one call, copied into jobs by id."""

import json
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.secret_urls import REDACTED
from rft.platform.jobs.repository import JobRepository
from rft.platform.jobs.run_spec import to_run_spec
from rft.platform.store.key_rotation import rotate_key
from rft.platform.store.secret_box import KEY_FILE, SecretBox
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import Api

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """A tool that shouts, a grader that likes long answers."""
    tools = ScriptedTools({"search": lambda arguments, item: f"{arguments['query']} of {item.get('id')}".upper()})
    grader = ScriptedGrader(lambda sample, item: len(str(sample["output_text"])))
    async with LoopbackEndpoint(ScriptedEndpoint(tools, grader)) as endpoint:
        yield endpoint


def a_tool(customer: LoopbackEndpoint, **changes: Any) -> dict[str, Any]:
    """Everything a tool can say."""
    return {
        "name": "search",
        "server_url": customer.tool_url,
        "headers": {"Authorization": "Bearer tool-secret"},
        "description": "Finds things.",
        "parameters": SCHEMA,
        "max_concurrency": 9,
        "retry": "unsafe",
        "our_note": "kept",
        **changes,
    }


def a_grader(customer: LoopbackEndpoint, **changes: Any) -> dict[str, Any]:
    """An endpoint grader."""
    return {"type": "endpoint", "url": customer.grader_url, "headers": {"X-Key": "grader-secret"}, **changes}


async def post(client: AsyncOpenAI, path: str, body: object = None) -> Any:
    return await client.post(path, body=body, cast_to=object)


async def get(client: AsyncOpenAI, path: str) -> Any:
    return await client.get(path, cast_to=object)


async def test_a_tools_life(client: AsyncOpenAI, customer: LoopbackEndpoint, migrated_url: str) -> None:
    made = await post(client, "/tools", a_tool(customer))
    assert made["id"].startswith("tool_")
    assert (made["object"], made["name"], made["our_note"]) == ("tool", "search", "kept")
    assert (made["parameters"], made["max_concurrency"], made["retry"]) == (SCHEMA, 9, "unsafe")
    assert made["headers"] == {"Authorization": REDACTED}
    assert made["health"]["status"] == "unknown"
    path = f"/tools/{made['id']}"
    assert await get(client, path) == made
    with psycopg.connect(migrated_url) as connection:
        (stored,) = connection.execute("select registrations::text from registrations").fetchall()[0]
    assert "tool-secret" not in stored

    sent_back = {key: value for key, value in made.items() if key in a_tool(customer)}
    changed = await post(client, path, {**sent_back, "max_concurrency": None, "rate_limit": 5})
    assert (changed["max_concurrency"], changed["rate_limit"], changed["headers"]) == (None, 5.0, made["headers"])
    await post(client, f"{path}/test", {"arguments": {"query": "cat"}})
    assert customer.endpoint.calls[-1].headers["authorization"] == "Bearer tool-secret", "the mask was not taken for it"
    with pytest.raises(BadRequestError) as raised:
        await post(client, path, {"server_url": "http://me:pw@host/"})
    assert raised.value.param == "server_url"
    with pytest.raises(BadRequestError) as raised:
        await post(client, path, {"headers": {"X-New": REDACTED}})
    assert raised.value.param == "headers"
    with pytest.raises(BadRequestError, match="Did you mean 'rate_limit'") as raised:
        await post(client, path, {"rate_limt": 2})
    assert raised.value.param == "rate_limt"

    second = await post(client, "/tools", a_tool(customer, name="cat"))
    page = await get(client, "/tools?limit=1")
    assert ([tool["id"] for tool in page["data"]], page["has_more"]) == ([second["id"]], True)
    page = await get(client, f"/tools?limit=1&after={second['id']}")
    assert ([tool["id"] for tool in page["data"]], page["has_more"]) == ([made["id"]], False)
    deleted: Any = await client.delete(path, cast_to=object)
    assert deleted == {"id": made["id"], "object": "tool", "deleted": True}
    with pytest.raises(NotFoundError) as missing:
        await get(client, path)
    assert missing.value.code == "tool_not_found"


async def test_a_misspelled_field_of_an_earlier_release_stands_in_no_changes_way(
    client: AsyncOpenAI, customer: LoopbackEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("rft.platform.registry.service.refuse_misspelled", Mock())
        made = await post(client, "/tools", a_tool(customer, max_concurency=3))
    changed = await post(client, f"/tools/{made['id']}", {"rate_limit": 5})
    assert (changed["rate_limit"], changed["max_concurency"]) == (5.0, 3)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"id": "tool_mine"}, "id"),
        ({"server_url": "ftp://host/"}, "server_url"),
        ({"headers": {"A": "b\r\nX: 1"}}, "headers"),
        ({"headers": {"A": REDACTED}}, "headers"),
        ({"parameters": {"type": "objekt"}}, "parameters"),
        ({"name": "two words"}, "name"),
        ({"max_concurency": 3}, "max_concurency"),
    ],
)
async def test_a_bad_tool_is_not_registered(
    client: AsyncOpenAI, customer: LoopbackEndpoint, changes: dict[str, Any], param: str | None
) -> None:
    with pytest.raises(BadRequestError) as raised:
        await post(client, "/tools", a_tool(customer, **changes))
    assert raised.value.param == param
    assert (await get(client, "/tools"))["data"] == []


async def test_the_health_of_a_registered_multi_grader_is_that_of_its_parts_in_the_last_job(
    client: AsyncOpenAI, order: dict[str, Any], customer: LoopbackEndpoint, migrated_url: str
) -> None:
    parts = [a_grader(customer, name=name) for name in ("first", "second")]
    multi = {"type": "multi", "name": "both", "graders": parts, "calculate_output": "first + second"}
    made = await post(client, "/graders", {"grader": multi})
    order["method"]["reinforcement"]["grader"] = {"id": made["id"]}
    job = await client.fine_tuning.jobs.create(**order)
    with psycopg.connect(migrated_url) as connection:
        connection.execute("update jobs set started_at = now(), current_step = 0 where id = %s", (job.id,))
        for name, code in (("first", None), ("second", "timeout"), ("other", "timeout")):
            connection.execute(
                "insert into attempts (job_id, step, trace_id, stage, endpoint, call_id, attempt, code, latency_ms,"
                " queued_ms, sent_bytes, received_bytes, at)"
                " values (%s, 0, 'trace_1', 'grader', %s, 'grade', 1, %s, 5, 0, 1, 1, now())",
                (job.id, name, code),
            )
    health = (await get(client, f"/graders/{made['id']}"))["health"]
    assert (health["status"], health["attempts"], health["error_share"]) == ("degraded", 2, 0.5)
    assert health["last_failure"] == "timeout"


@pytest.mark.parametrize("path", ["/tools", "/graders"])
@pytest.mark.parametrize("escape", ["\\ud800", "\\u0000"])
async def test_text_that_no_database_holds_is_refused(client: AsyncOpenAI, path: str, escape: str) -> None:
    part = f'{{"name": "a", "type": "endpoint", "server_url": "http://h/", "url": "http://h/", "x": "{escape}"}}'
    body = part.replace(', "url": "http://h/"', "") if path == "/tools" else f'{{"grader": {part}}}'
    with pytest.raises(BadRequestError) as raised:
        await client.post(
            path, content=body.encode(), cast_to=object, options={"headers": {"content-type": "application/json"}}
        )
    assert raised.value.code == "invalid_value"


async def test_one_call_to_a_tool(client: AsyncOpenAI, customer: LoopbackEndpoint, refused_url: str) -> None:
    tool = await post(client, "/tools", a_tool(customer))
    path = f"/tools/{tool['id']}"
    good = await post(client, f"{path}/test", {"arguments": {"query": "cats"}, "item": {"id": 7}})
    assert (good["is_ok"], good["output"], good["failure"]) == (True, "CATS OF 7", None)
    assert [(attempt["status"], attempt["code"]) for attempt in good["attempts"]] == [(200, None)]
    call = customer.endpoint.calls[-1]
    assert call.headers["webhook-signature"].startswith("v1,")
    assert json.loads(call.body)["trace_id"] == good["trace_id"]
    assert (await get(client, path))["health"]["status"] == "healthy"

    calls = len(customer.endpoint.calls)
    bad = await post(client, f"{path}/test")
    assert (bad["is_ok"], bad["error_code"], bad["attempts"]) == (False, "invalid_arguments", [])
    assert "query" in bad["output"]
    assert len(customer.endpoint.calls) == calls

    customer.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=500)] * 20)
    await post(client, path, {"retry": "safe", "parameters": None})
    failed = await post(client, f"{path}/test")
    assert (failed["is_ok"], failed["output"], failed["failure"]["code"]) == (False, None, "server_error")
    assert {attempt["code"] for attempt in failed["attempts"]} == {"server_error"}
    health = (await get(client, path))["health"]
    assert (health["status"], "500" in health["last_failure"]) == ("failing", True)

    for changes in (
        {"server_url": refused_url},
        {"callback_url": refused_url},
        {"headers": {"Authorization": REDACTED}},
    ):
        with pytest.raises(BadRequestError, match="give the headers again") as raised:
            await post(client, path, {"server_url": refused_url, **changes})
        assert raised.value.param == "headers"
    assert (await get(client, path))["server_url"] == customer.tool_url
    gone = await post(client, path, {"server_url": refused_url, "headers": {"Authorization": "another"}})
    assert gone["health"]["status"] == "unknown", "another server has another health"


async def test_a_graders_life(client: AsyncOpenAI, customer: LoopbackEndpoint) -> None:
    made = await post(client, "/graders", {"grader": a_grader(customer)})
    path = f"/graders/{made['id']}"
    assert (made["object"], made["type"]) == ("grader", "endpoint")
    assert made["name"].startswith("grader-")
    assert made["grader"] == {**a_grader(customer, name=made["name"]), "headers": {"X-Key": REDACTED}}
    tested = await post(client, f"{path}/test", {"model_sample": "seven", "item": {"a": 1}})
    assert (tested["is_ok"], tested["reward"], len(tested["attempts"])) == (True, 5.0, 1)
    assert customer.endpoint.calls[-1].headers["x-key"] == "grader-secret"

    with pytest.raises(BadRequestError, match="give the headers again") as raised:
        await post(client, path, {"grader": {**made["grader"], "url": "http://127.0.0.1:1/"}})
    assert raised.value.param == "grader.headers"
    changed = await post(client, path, {"grader": {**made["grader"], "rate_limit": 3}})
    assert (changed["grader"]["rate_limit"], changed["name"]) == (3, made["name"])
    await post(client, f"{path}/test")
    assert customer.endpoint.calls[-1].headers["x-key"] == "grader-secret"
    with pytest.raises(BadRequestError) as raised:
        await post(client, "/graders", {"grader": a_grader(customer, url="nowhere")})
    assert raised.value.param == "grader.url"
    assert [entry["id"] for entry in (await get(client, "/graders"))["data"]] == [made["id"]]
    await client.delete(path, cast_to=object)
    with pytest.raises(NotFoundError):
        await post(client, f"{path}/test")


async def test_a_builtin_grader_is_registered_and_tried(client: AsyncOpenAI) -> None:
    grader = {"type": "string_check", "input": "{{sample.output_text}}", "reference": "7", "operation": "eq"}
    made = await post(client, "/graders", {"grader": grader})
    rewards = [
        (await post(client, f"/graders/{made['id']}/test", {"model_sample": answer}))["reward"] for answer in "78"
    ]
    assert rewards == [1.0, 0.0]


async def test_a_registered_grader_of_the_longest_name_is_used_by_a_job(
    client: AsyncOpenAI, order: dict[str, Any], customer: LoopbackEndpoint
) -> None:
    name = "".join(chr(0x20000 + number * 37 % 40_000) for number in range(512))
    grader = await post(client, "/graders", {"grader": a_grader(customer, name=name)})
    order["method"]["reinforcement"]["grader"] = {"id": grader["id"]}
    job: Any = (await client.fine_tuning.jobs.create(**order)).to_dict(warnings=False)
    assert (grader["name"], job["method"]["reinforcement"]["grader"]["name"]) == (name, name)


async def test_a_job_of_registered_parts_keeps_its_copies(
    client: AsyncOpenAI, order: dict[str, Any], customer: LoopbackEndpoint, api: Api, migrated_url: str
) -> None:
    tool = await post(client, "/tools", a_tool(customer))
    grader = await post(client, "/graders", {"grader": a_grader(customer, name="judge")})
    reinforcement = order["method"]["reinforcement"]
    inline = {"name": "cat", "server_url": customer.tool_url, "headers": {"X-Cat": "cat-secret"}}
    reinforcement |= {"tools": [{"id": tool["id"]}, inline], "grader": {"id": grader["id"]}}
    # The running API follows a key that is rotated under it.
    rotate_key(api.settings.home / KEY_FILE, migrated_url, settle_s=0)
    job = await client.fine_tuning.jobs.create(**order)
    shown: Any = job.to_dict(warnings=False)
    shown_tool, shown_cat = shown["method"]["reinforcement"]["tools"]
    assert shown_tool == {**a_tool(customer), "id": tool["id"], "headers": {"Authorization": REDACTED}}
    assert shown_cat == {**inline, "headers": {"X-Cat": REDACTED}}
    shown_grader = shown["method"]["reinforcement"]["grader"]
    assert (shown_grader["id"], shown_grader["url"]) == (grader["id"], customer.grader_url)
    assert shown_grader["headers"] == {"X-Key": REDACTED}

    await post(client, f"/tools/{tool['id']}", {"server_url": f"{customer.base_url}/elsewhere"})
    await client.delete(f"/graders/{grader['id']}", cast_to=object)
    async with await psycopg.AsyncConnection.connect(migrated_url) as connection:
        row = await JobRepository(connection).get(job.id)
    assert row is not None
    assert row.secrets is not None
    secrets = SecretBox.at(api.settings.home).unseal(row.secrets)
    assert secrets.tool_headers == {
        "search": {"Authorization": "Bearer tool-secret"},
        "cat": {"X-Cat": "cat-secret"},
    }
    assert secrets.grader_headers == {"X-Key": "grader-secret"}
    spec = to_run_spec(row, resolve(Hyperparameters(), train_rows=4), api.settings, "/models/tiny")
    assert spec.tools[0].server_url == customer.tool_url
    assert spec.tools[0].schema_of_job is not None
    assert spec.tools[0].schema_of_job.parameters == SCHEMA
    assert spec.tools[1].schema_of_job is None


async def test_references_that_lead_nowhere(
    client: AsyncOpenAI, order: dict[str, Any], customer: LoopbackEndpoint
) -> None:
    blocked = "http://10.1.2.3/"
    tool = await post(client, "/tools", a_tool(customer, server_url=blocked))
    reinforcement = order["method"]["reinforcement"]
    given = {"tools": reinforcement["tools"], "grader": reinforcement["grader"]}
    grader_id = tool["id"].replace("tool_", "grader_")
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"tools": [{"id": "tool_none"}]}, "tools[0].id", "tool_not_found"),
        ({"grader": {"id": grader_id}}, "grader.id", "grader_not_found"),
        ({"tools": [*given["tools"], {"id": tool["id"]}]}, "tools[2].name", "invalid_value"),
        ({"tools": [{"id": tool["id"]}]}, "tools[0].id", "tool_unreachable"),
        ({"tools": [{**given["tools"][0], "headers": {"A": REDACTED}}]}, "tools[0].headers", "invalid_value"),
        ({"tools": [{**given["tools"][0], "callback_url": blocked}]}, "tools[0].callback_url", "tool_unreachable"),
    ]
    for changes, param, code in cases:
        order["method"]["reinforcement"] = {**reinforcement, **given, **changes}
        with pytest.raises(BadRequestError) as raised:
            await client.fine_tuning.jobs.create(**order)
        assert (raised.value.param, raised.value.code) == (f"method.reinforcement.{param}", code)
