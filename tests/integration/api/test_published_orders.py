"""Job orders as they were published for the hosted service: taken as they are, model names included."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI
from openai.types.fine_tuning import FineTuningJob

from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.update_spec import UpdateWanted
from rft.platform.api.key_repository import create_key
from rft.platform.jobs.repository import JobRepository
from rft.platform.jobs.run_spec import to_run_spec
from rft.platform.settings import Settings
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import Api, ReceivedMessages, Served, upload

ORDERS = Path(__file__).parents[2] / "data" / "hosted_orders"
TOOLS = ("search", "list", "cat")
REDACTED_HEADER = "**********"
AUTO = {
    "n_epochs": "auto",
    "batch_size": "auto",
    "learning_rate_multiplier": "auto",
    "compute_multiplier": "auto",
    "eval_interval": "auto",
    "eval_samples": "auto",
    "max_staleness": 0,
    "policy_pin": "rollout",
    "reasoning_effort": "default",
    **dict.fromkeys(UpdateWanted.model_fields, "auto"),
}
ROW = {
    "messages": [{"role": "developer", "content": "Answer."}, {"role": "user", "content": "How much?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "strict": True,
                "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
            },
        }
        for name in TOOLS
    ],
    "parallel_tool_calls": True,
    "answer": "7",
}


@pytest.fixture
async def api(migrated_url: str, tmp_path: Path, base_model: Path) -> AsyncIterator[Api]:
    """The API with base models that have the hosted ones' names, and a judge; creating a job does not call it."""
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "DATABASE_URL": migrated_url,
            "base_models": {"gpt-5-2025-08-07": str(base_model), "o4-mini-2025-04-16": str(base_model)},
            "judge_base_url": "http://127.0.0.1:9/v1",
        }
    )
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    messages = ReceivedMessages()
    with Served(settings, messages) as port:
        yield Api(url=f"http://127.0.0.1:{port}", key=key, settings=settings, messages=messages)


@pytest.fixture
async def training_file(client: AsyncOpenAI) -> str:
    """Rows as the hosted agents' were."""
    return (await upload(client, json.dumps(ROW).encode() + b"\n")).id


def published(name: str, training_file: str, customer: LoopbackEndpoint) -> dict[str, Any]:
    """The order, with addresses and files of this test."""
    text = (ORDERS / f"{name}.json").read_text()
    for placeholder, value in (
        ("{training_file}", training_file),
        ("{tool_url}", customer.tool_url),
        ("{grader_url}", customer.grader_url),
    ):
        text = text.replace(placeholder, value)
    return json.loads(text)


def shown_method(order: dict[str, Any]) -> dict[str, Any]:
    """What the contract shows of it: header values redacted, hyperparameters filled, the rest untouched."""
    method = json.loads(json.dumps(order["method"]))
    reinforcement = method["reinforcement"]
    grader = reinforcement["grader"]
    for holder in (*reinforcement.get("tools", ()), grader, *grader.get("graders", {}).values()):
        if "headers" in holder:
            holder["headers"] = dict.fromkeys(holder["headers"], REDACTED_HEADER)
    for tool in reinforcement.get("tools", ()):
        if "url" in tool:
            tool["server_url"] = tool["url"]
    old_place = order.get("hyperparameters", {})
    reinforcement["hyperparameters"] = AUTO | old_place | reinforcement.get("hyperparameters", {})
    reinforcement.setdefault("response_format", None)
    return method


@pytest.mark.parametrize("name", sorted(path.stem for path in ORDERS.glob("*.json")))
async def test_a_published_order_is_taken_as_it_is(
    client: AsyncOpenAI, api: Api, training_file: str, customer: LoopbackEndpoint, name: str
) -> None:
    order = published(name, training_file, customer)
    known = {key: order[key] for key in order if key != "trainingType"}
    extra = {key: order[key] for key in order if key == "trainingType"}

    job = await client.fine_tuning.jobs.create(**known, extra_body=extra or None)

    shown: Any = json.loads(job.to_json(warnings=False))
    wanted = shown_method(order)
    if "name" not in wanted["reinforcement"]["grader"]:
        invented = shown["method"]["reinforcement"]["grader"].pop("name")
        assert invented.startswith("grader-")
    assert shown["method"] == wanted
    assert extra.items() <= shown.items()
    assert (job.model, job.status, job.error) == (order["model"], "validating_files", None)
    assert (job.metadata, job.training_file) == (order.get("metadata"), training_file)
    assert (job.validation_file, shown["user_provided_suffix"]) == (order.get("validation_file"), order.get("suffix"))
    assert job.seed == order.get("seed", job.seed)
    assert "hyperparameters" not in shown, "only supervised jobs have them"
    assert "secret" not in job.to_json(warnings=False)
    # All that is typed is as typed, but for graders and tools the SDK has no types for.
    typed = FineTuningJob.model_validate({**shown, "hyperparameters": {}, "method": None})
    assert typed.id == job.id
    await assert_it_can_run(api, job.id, order)


async def assert_it_can_run(api: Api, job_id: str, order: dict[str, Any]) -> None:
    """The stored order makes a run's specification."""
    async with await psycopg.AsyncConnection.connect(api.settings.database_url or "") as connection:
        stored = await JobRepository(connection).get(job_id)
    assert stored is not None
    spec = to_run_spec(stored, resolve(Hyperparameters(), train_rows=4), api.settings, "/nowhere")
    reinforcement = order["method"]["reinforcement"]
    assert spec.grader.type == reinforcement["grader"]["type"]
    assert tuple(tool.name for tool in spec.tools) == (TOOLS if "tools" in reinforcement else ())
    assert "secret" not in spec.model_dump_json().replace("signing_secret", "")


async def test_what_has_no_effect_here_is_kept_and_named_in_an_event(
    client: AsyncOpenAI, training_file: str, customer: LoopbackEndpoint
) -> None:
    job = await client.fine_tuning.jobs.create(**published("agent_tools_endpoint_grader", training_file, customer))
    events: list[Any] = (await client.fine_tuning.jobs.list_events(job.id)).data
    (data,) = [event.data for event in events if event.data and event.data.get("code") == "unknown_fields"]
    assert set(data["fields"]) >= {
        "method.reinforcement.hyperparameters.exploration_bonus",
        "method.reinforcement.tools[1].rate_limits",
    }
    assert not [field for field in data["fields"] if field.endswith((".url", ".pass_threshold"))]
