"""What happens to an order beside its fields' checks: undescribed tools, unknown fields, idempotency keys."""

import asyncio
import json
from copy import deepcopy
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError

from rft.platform.api.key_repository import create_key
from tests.shared.running_api import Api, collect, upload

USER = {"role": "user", "content": "How much?"}


def rows_describing(*names: str) -> bytes:
    """A file with one row."""
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return json.dumps({"messages": [USER], "tools": tools}).encode() + b"\n"


async def test_a_tool_that_nothing_describes_is_refused_by_name(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    order["training_file"] = (await upload(client, rows_describing("search"))).id
    order["validation_file"] = (await upload(client, rows_describing())).id
    with pytest.raises(BadRequestError, match="'cat'") as raised:
        await client.fine_tuning.jobs.create(**order)
    error = raised.value
    assert (error.param, error.code) == ("method.reinforcement.tools[1].name", "tool_not_described")
    assert await collect(client.fine_tuning.jobs.list()) == []


async def test_either_file_or_the_tool_itself_may_describe_it(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    order["training_file"] = (await upload(client, rows_describing("search"))).id
    by_file: dict[str, Any] = {**order, "validation_file": (await upload(client, rows_describing("cat"))).id}
    assert (await client.fine_tuning.jobs.create(**by_file)).status == "validating_files"
    order["method"]["reinforcement"]["tools"][1]["description"] = "Shows a file."
    assert (await client.fine_tuning.jobs.create(**order)).status == "validating_files"


@pytest.mark.parametrize("content", [b"{oops\n", b"\n"])
async def test_a_file_no_job_can_use_is_judged_when_the_job_starts(
    client: AsyncOpenAI, order: dict[str, Any], content: bytes
) -> None:
    order["training_file"] = (await upload(client, content)).id
    assert (await client.fine_tuning.jobs.create(**order)).status == "validating_files"


async def test_a_file_that_was_never_read_is_judged_when_the_job_starts(
    client: AsyncOpenAI, order: dict[str, Any], migrated_url: str
) -> None:
    order["training_file"] = (await upload(client, rows_describing())).id
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await connection.execute("update files set report = null")
    assert (await client.fine_tuning.jobs.create(**order)).status == "validating_files"


async def test_unknown_fields_are_echoed_and_named_in_an_event(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    order["method"]["flavour"] = {"sweet": True}
    order["method"]["reinforcement"]["grader"]["mood"] = "kind"
    order["method"]["reinforcement"]["budgets"] = {"max_coffee": 3}
    tool = order["method"]["reinforcement"]["tools"][0]
    tool["url"] = tool.pop("server_url")
    job = await client.fine_tuning.jobs.create(**order, extra_body={"trainingType": "Standard"})
    shown: Any = job.to_dict(warnings=False)
    assert (shown["trainingType"], shown["method"]["flavour"]) == ("Standard", {"sweet": True})
    assert shown["method"]["reinforcement"]["grader"]["mood"] == "kind"
    events: list[Any] = (await client.fine_tuning.jobs.list_events(job.id)).data
    (warning,) = [event for event in events if event.data and event.data["code"] == "unknown_fields"]
    assert warning.data == {
        "code": "unknown_fields",
        "fields": [
            "method.flavour",
            "method.reinforcement.budgets.max_coffee",
            "method.reinforcement.grader.mood",
            "method.reinforcement.hyperparameters.future_knob",
            "method.reinforcement.tools[1].our_note",
            "trainingType",
        ],
    }


async def test_fields_that_have_no_effect_here_are_named_in_an_event(
    client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    reinforcement = order["method"]["reinforcement"]
    del reinforcement["hyperparameters"]["future_knob"], reinforcement["tools"][1]["our_note"]
    reinforcement["hyperparameters"]["reasoning_effort"] = "default"
    quiet = await client.fine_tuning.jobs.create(**order, validation_file=order["training_file"])
    assert [
        event for event in (await client.fine_tuning.jobs.list_events(quiet.id)).data if event.level == "warn"
    ] == []

    code = {"type": "python", "source": "def grade(sample, item): return 1.0\n", "image_tag": "2025-05-08"}
    reinforcement["grader"] = {
        "type": "multi",
        "id": "mine",
        "graders": {"judge": {**reinforcement["grader"], "pass_threshold": 0.5}, "code": {**code, "image_tag": "new"}},
        "calculate_output": "judge + code",
        "pass_threshold": 1,
    }
    reinforcement["hyperparameters"] |= {"reasoning_effort": "high", "epsilon": 0.2, "policy_pin": "turn"}
    reinforcement["tools"][1]["id"] = "mine"
    reinforcement["early_stop"] = {"target_reward": 0.9}
    job = await client.fine_tuning.jobs.create(**order)
    events = (await client.fine_tuning.jobs.list_events(job.id)).data
    told: Any = {event.data["code"]: event.data["fields"] for event in events if event.level == "warn"}  # pyright: ignore[reportIndexIssue, reportUnknownMemberType, reportUnknownVariableType, reportOptionalSubscript]
    within = "method.reinforcement."
    assert told == {
        "no_validation": ["validation_file"],
        "fields_without_effect": [
            f"{within}early_stop",
            f"{within}grader.graders.code.image_tag",
            f"{within}grader.graders.judge.pass_threshold",
            f"{within}grader.pass_threshold",
            f"{within}hyperparameters.epsilon",
            f"{within}hyperparameters.policy_pin",
            f"{within}hyperparameters.reasoning_effort",
        ],
        "unknown_fields": [f"{within}grader.id", f"{within}tools[1].id"],
    }


@pytest.mark.parametrize(("loss_type", "idle"), [("cispo", ["epsilon"]), ("dapo", [])])
async def test_cispo_has_no_use_for_a_lower_end_of_the_clip_range(
    client: AsyncOpenAI, order: dict[str, Any], loss_type: str, idle: list[str]
) -> None:
    reinforcement = order["method"]["reinforcement"]
    reinforcement["loss_type"] = loss_type
    reinforcement["hyperparameters"] = {"max_staleness": 1, "epsilon": 0.1, "epsilon_high": 1.5}
    job = await client.fine_tuning.jobs.create(**order)
    events: list[Any] = (await client.fine_tuning.jobs.list_events(job.id)).data
    named = [event.data["fields"] for event in events if event.data and event.data["code"] == "fields_without_effect"]
    assert named == ([[f"method.reinforcement.hyperparameters.{name}" for name in idle]] if idle else [])


async def test_a_secret_under_a_misspelt_name_is_kept_from_everybody(
    client: AsyncOpenAI, order: dict[str, Any], migrated_url: str
) -> None:
    order["method"]["reinforcement"]["tools"][0]["Headers"] = {"Authorization": "Bearer mistyped-secret"}
    order["method"]["reinforcement"]["grader"]["api_key"] = "mistyped-secret"
    job = await client.fine_tuning.jobs.create(**order, extra_body={"token": "mistyped-secret"})
    shown: Any = job.to_dict(warnings=False)
    assert "mistyped-secret" not in json.dumps(shown)
    assert shown["method"]["reinforcement"]["tools"][0]["Headers"] == {"Authorization": "**********"}
    async with await psycopg.AsyncConnection.connect(migrated_url) as connection:
        cursor = await connection.execute(
            "select jobs::text, (select string_agg(e::text, '') from job_events e) from jobs"
        )
        assert "mistyped-secret" not in str(await cursor.fetchall())


@pytest.mark.parametrize("param", ["training_file", "validation_file"])
async def test_a_rows_tool_that_is_described_wrongly_is_refused_with_its_line(
    client: AsyncOpenAI, order: dict[str, Any], param: str
) -> None:
    tool = {"type": "function", "function": {"name": "cat", "parameters": {"type": "nonsense"}}}
    bad = json.dumps({"messages": [USER], "tools": [tool]}).encode()
    order[param] = (await upload(client, rows_describing("search", "cat") + bad + b"\n")).id
    with pytest.raises(BadRequestError, match=r"line 2 at tools\[0\].function.parameters: not a JSON Schema") as raised:
        await client.fine_tuning.jobs.create(**order)
    assert (raised.value.param, raised.value.code) == (param, f"invalid_{param}")
    assert await collect(client.fine_tuning.jobs.list()) == []


def keyed(key: str) -> dict[str, Any]:
    """As the SDK sends a header of the caller's."""
    return {"extra_headers": {"Idempotency-Key": key}}


async def test_the_same_order_under_the_same_key_is_one_job(
    client: AsyncOpenAI, order: dict[str, Any], api: Api
) -> None:
    first = await client.fine_tuning.jobs.create(**order, **keyed("monday"))
    reordered = dict(reversed(order.items()))
    again = await client.fine_tuning.jobs.create(**reordered, **keyed("monday"))
    assert again.id == first.id
    assert len(api.messages.received) == 1
    assert (await client.fine_tuning.jobs.create(**order, **keyed("tuesday"))).id != first.id
    assert (await client.fine_tuning.jobs.create(**order)).id != first.id


async def test_another_order_under_the_same_key_is_refused(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    await client.fine_tuning.jobs.create(**order, **keyed("monday"))
    other = deepcopy(order)
    other["method"]["reinforcement"]["tools"][0]["headers"]["X-Key"] = "another-secret"
    with pytest.raises(BadRequestError, match="another request") as raised:
        await client.fine_tuning.jobs.create(**other, **keyed("monday"))
    assert (raised.value.param, raised.value.code) == ("Idempotency-Key", "idempotency_key_reused")
    assert len(await collect(client.fine_tuning.jobs.list())) == 1


async def test_a_refused_order_uses_no_key_up(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        await client.fine_tuning.jobs.create(**{**order, "model": "unknown"}, **keyed("monday"))
    assert (await client.fine_tuning.jobs.create(**order, **keyed("monday"))).status == "validating_files"


async def test_orders_sent_at_once_under_one_key_are_one_job(
    client: AsyncOpenAI, order: dict[str, Any], api: Api
) -> None:
    jobs = await asyncio.gather(*(client.fine_tuning.jobs.create(**order, **keyed("rush")) for _ in range(6)))
    assert len({job.id for job in jobs}) == 1
    assert len(await collect(client.fine_tuning.jobs.list())) == 1
    assert len(api.messages.received) == 1


async def test_a_key_belongs_to_its_api_key_and_lives_a_day(
    client: AsyncOpenAI, order: dict[str, Any], api: Api, migrated_url: str
) -> None:
    first = await client.fine_tuning.jobs.create(**order, **keyed("monday"))
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        other_key = await create_key(connection, "others")
        async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key=other_key, max_retries=0) as other:
            assert (await other.fine_tuning.jobs.create(**order, **keyed("monday"))).id != first.id
        await connection.execute("update idempotency_keys set created_at = created_at - interval '25 hours'")
    assert (await client.fine_tuning.jobs.create(**order, **keyed("monday"))).id != first.id


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_has_a_length(client: AsyncOpenAI, order: dict[str, Any], key: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        await client.fine_tuning.jobs.create(**order, **keyed(key))
    assert raised.value.param == "Idempotency-Key"
