"""What an order comes to, told before there is a job."""

import json
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError
from psycopg.types.json import Jsonb

from rft.platform.rehearsals.repository import NewRehearsal, RehearsalRepository
from rft.rollouts.rehearsal_report import RehearsalPlan
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.api.conftest import client_of, served_api
from tests.shared.rehearsal_reports import endpoint, report
from tests.shared.running_api import EXACT, ROW, Api, changed, upload

PATH = "/v1/fine_tuning/alpha/jobs/estimate"


@pytest.fixture
async def whole_order(client: AsyncOpenAI, order: dict[str, Any]) -> dict[str, Any]:
    """Ten rows to train on, four to validate."""
    train, valid = await upload(client, ROW * 10), await upload(client, ROW * 4)
    return changed(order, {"training_file": train.id, "validation_file": valid.id})


async def estimated(api: Api, order: dict[str, Any], status: int = 200) -> Any:
    async with httpx.AsyncClient(
        base_url=api.url, headers={"authorization": f"Bearer {api.key}"}, timeout=60.0
    ) as http:
        reply = await http.post(PATH, json=order)
    assert reply.status_code == status, reply.text
    return reply.json()


def with_reinforcement(order: dict[str, Any], **fields: Any) -> dict[str, Any]:
    reinforcement = order["method"]["reinforcement"] | fields
    return changed(order, {"method": {"type": "reinforcement", "reinforcement": reinforcement}})


async def test_steps_rollouts_and_what_each_endpoint_bears(
    api: Api, whole_order: dict[str, Any], customer: LoopbackEndpoint, client: AsyncOpenAI
) -> None:
    hyperparameters = {"batch_size": 4, "compute_multiplier": 0.5, "n_epochs": 2, "eval_interval": 2}
    told = await estimated(api, with_reinforcement(whole_order, hyperparameters=hyperparameters))
    assert (told["train_rows"], told["validation_rows"], told["test_rows"]) == (10, 4, 0)
    used = told["hyperparameters"]
    assert (used["steps"], used["group_size"], used["burst"]) == (5, 4, 16)
    assert used["lora"] == {"rank": 16, "alpha": 32, "learning_rate": 5e-05, "target_modules": None}
    assert told["evaluations"] == 4, "steps 0, 2, 4 and 5"
    assert told["rollouts"] == {"training": 80, "validation": 16, "final": 4, "baselines": 0, "total": 100}
    assert [(one["stage"], one["name"], one["burst"], one["calls"]) for one in told["endpoints"]] == [
        ("tool", "search", 16, 150),
        ("tool", "cat", 16, 150),
        ("grader", "judge", 16, 100),
    ]
    assert customer.connections == 0, "nobody was called"
    assert (await client.fine_tuning.jobs.list()).data == []


async def test_calls_are_those_of_the_newest_job_with_the_same_tool(
    api: Api, whole_order: dict[str, Any], client: AsyncOpenAI, migrated_url: str
) -> None:
    earlier = await client.fine_tuning.jobs.create(**whole_order)
    record = {"train": {"tools": [{"name": "search", "calls_per_rollout_mean": 2.5}]}, "valid": None, "timing": {}}
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await connection.execute("update jobs set current_step = 3 where id = %s", (earlier.id,))
        await connection.execute(
            "insert into steps (job_id, step, record) values (%s, 3, %s)", (earlier.id, Jsonb(record))
        )
    search, cat, _ = (await estimated(api, whole_order))["endpoints"]
    assert (search["calls_per_rollout"], search["measured_in"]) == (2.5, earlier.id)
    assert (cat["calls_per_rollout"], cat["measured_in"]) == (1.5, None)


async def test_auto_staleness_follows_a_rehearsal_as_the_job_s_would(
    api: Api, whole_order: dict[str, Any], client: AsyncOpenAI, migrated_url: str
) -> None:
    wanted = with_reinforcement(whole_order, hyperparameters={"batch_size": 2, "max_staleness": "auto"})
    job = await client.fine_tuning.jobs.create(**wanted)
    assert (await estimated(api, wanted))["hyperparameters"]["max_staleness"] == 1, "nothing is known"
    plan = RehearsalPlan(rows_per_step=2, group_size=4, rollouts=8, calls_per_rollout=2)
    slow = report(endpoint(p50_ms=15e3, p95_ms=15e3), rollouts=8).model_dump_json()
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        method = await (await connection.execute("select method from jobs where id = %s", (job.id,))).fetchone()
        assert method is not None
        new = NewRehearsal(
            id="rehearsal-1", model=job.model, training_file=job.training_file, method=method[0], secrets=None, seed=1,
            plan=plan,
        )  # fmt: skip
        await RehearsalRepository(connection).insert(new)
        await connection.execute("update rehearsals set status = 'completed', report = %s", (slow,))
    assert (await estimated(api, wanted))["hyperparameters"]["max_staleness"] == 3
    fixed = with_reinforcement(whole_order, hyperparameters={"batch_size": 2, "max_staleness": 2})
    assert (await estimated(api, fixed))["hyperparameters"]["max_staleness"] == 2


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "nobody's"}, "model"),
        ({"training_file": "file-none"}, "training_file"),
        ({"method": {"type": "reinforcement", "reinforcement": {"grader": EXACT | {"operation": "is"}}}},
         "method.reinforcement.grader.operation"),
        ({"method": {"type": "reinforcement", "reinforcement": {"grader": EXACT, "tools": [
            {"name": "search", "server_url": "nowhere"}]}}}, "method.reinforcement.tools[0].server_url"),
    ],
)  # fmt: skip
async def test_what_a_job_would_be_refused_for_is_told_at_its_field(
    api: Api, whole_order: dict[str, Any], fields: dict[str, Any], param: str
) -> None:
    refused = await estimated(api, changed(whole_order, fields), 400)
    assert refused["error"]["param"] == param


_WORKERS = {
    "engine": "vllm",
    "vllm_servers": ["http://gpu-1:8000"],
    "rollout_workers": "celery",
    "tool_gateway_url": "http://127.0.0.1:8300",
    "grader_gateway_url": "http://127.0.0.1:8301",
}


@pytest.mark.parametrize(
    ("set_too", "hyperparameters", "code"),
    [
        ({"engine": "vllm", "devices": "train=0 vllm=0"}, {"max_staleness": 2}, "devices_not_usable"),
        ({"devices": "train=0 vllm=1"}, {}, "devices_not_usable"),
        ({"rollout_workers": "celery"}, {}, "rollout_workers_not_usable"),
        (_WORKERS, {"policy_pin": "turn"}, "rollout_workers_not_usable"),
    ],
)
async def test_what_the_installation_cannot_run_is_refused_as_a_job_is(
    migrated_url: str,
    tmp_path: Path,
    base_model: Path,
    order: dict[str, Any],
    set_too: dict[str, Any],
    hyperparameters: dict[str, Any],
    code: str,
) -> None:
    wanted = with_reinforcement(order, hyperparameters=hyperparameters)
    async with served_api(migrated_url, tmp_path / "so", base_model, **set_too) as api, client_of(api) as client:
        with pytest.raises(BadRequestError) as refused:
            await client.fine_tuning.jobs.create(**wanted)
        assert (await estimated(api, wanted, 400))["error"] == refused.value.body
        assert refused.value.code == code


async def test_files_that_a_job_would_fail_for_are_told(
    api: Api, whole_order: dict[str, Any], client: AsyncOpenAI
) -> None:
    described = {"type": "function", "function": {"name": "dog"}}
    strange = json.dumps({"messages": [{"role": "user", "content": "?"}], "tools": [described]}).encode()
    broken, long, odd = [
        (await upload(client, rows)).id for rows in (ROW * 10 + b"{\n", ROW * 1_001, ROW + strange + b"\n")
    ]
    names = {"training_file": broken, "validation_file": long, "test_file": odd}
    warnings = (await estimated(api, changed(whole_order, names)))["warnings"]
    told = [(warning["code"], warning["message"]) for warning in warnings if warning["code"].startswith("invalid_")]
    assert told == [
        ("invalid_training_file", f"A job would fail: file {broken} has 1 problem."),
        ("invalid_validation_file", f"A job would fail: file {long} has 1,001 rows, 1,000 at most here."),
        ("invalid_test_file", f"A job would fail: line 2 of file {odd} describes 'dog', no tool of the order."),
    ]


async def test_what_its_owner_should_hear_is_told(api: Api, whole_order: dict[str, Any]) -> None:
    order = {**with_reinforcement(whole_order, grader=EXACT, tools=[]), "validation_file": None, "sufix": "mail"}
    told = await estimated(api, order)
    codes = [warning["code"] for warning in told["warnings"]]
    assert codes == ["unserved_tools", "no_validation", "unknown_fields"], "its rows describe a tool"
    assert "sufix" in told["warnings"][2]["message"]
    assert told["rollouts"]["validation"] == 0
    assert told["endpoints"] == []
