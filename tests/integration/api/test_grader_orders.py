"""Jobs with every kind of grader, as orders written for the hosted service bring them."""

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError

from rft.core.graders import MultiGrader, RulerGrader, ScoreModelGrader
from rft.core.hyperparameters import Hyperparameters, resolve
from rft.platform.api.key_repository import create_key
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.jobs.run_spec import to_run_spec
from rft.platform.settings import Settings
from rft.platform.store.secret_box import SecretBox
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import Api, ReceivedMessages, Served

SCORE = {
    "type": "score_model",
    "name": "score_health",
    "input": [
        {"role": "developer", "content": "Judge the answer.", "type": "message"},
        {"role": "user", "content": "Question: {{item.messages[0].content}}\nAnswer: {{sample.output_text}}"},
    ],
    "pass_threshold": 0.75,
    "model": "o4-mini-2025-04-16",
    "range": [0, 1],
    "sampling_params": {"seed": 42, "temperature": 1.0, "max_completions_tokens": 32768, "reasoning_effort": "medium"},
}
CODE = "def grade(sample, item):\n    return 1.0\n"
RESPONSE_FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {"type": "object", "properties": {"headers": {"type": "string"}}, "required": ["headers"]},
    },
}


@pytest.fixture
async def api(migrated_url: str, tmp_path: Path, base_model: Path) -> AsyncIterator[Api]:
    """The API with a judge configured; creating a job does not call it."""
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "DATABASE_URL": migrated_url,
            "base_models": {"tiny": str(base_model)},
            "judge_base_url": "http://127.0.0.1:9/v1",
            "judge_api_key": "sk-judge-secret",
        }
    )
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    messages = ReceivedMessages()
    with Served(settings, messages) as port:
        yield Api(url=f"http://127.0.0.1:{port}", key=key, settings=settings, messages=messages)


def graded_by(order: dict[str, Any], grader: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(order)
    reinforcement = changed["method"]["reinforcement"]
    reinforcement["grader"] = grader
    reinforcement["tools"] = []
    return changed


def everything(customer: LoopbackEndpoint) -> dict[str, Any]:
    template = {"input": "{{ sample.output_text }}", "reference": "{{ item.answer }}"}
    return {
        "type": "multi",
        "graders": {
            "exact": {"type": "string_check", "name": "Exact match", **template, "operation": "eq"},
            "close": {"type": "text_similarity", "name": "Close", **template, "evaluation_metric": "rouge_l"},
            "health": copy.deepcopy(SCORE),
            "code": {
                "type": "python",
                "source": "def grade(sample, item):\n    return 1.0\n",
                "image_tag": "2025-05-08",
            },
            "remote": {
                "type": "endpoint",
                "url": customer.grader_url,
                "headers": {"Authorization": "Bearer part-secret"},
                "rate_limit": 50,
            },
        },
        "calculate_output": "0.4*exact + 0.2*close + 0.2*health + 0.1*code + 0.1*min(1, remote/5)",
        "invalid_grade": 0.0,
    }


async def stored(api: Api, job_id: str) -> JobRow:
    async with await psycopg.AsyncConnection.connect(api.settings.database_url or "") as connection:
        job = await JobRepository(connection).get(job_id)
    assert job is not None
    return job


async def test_an_order_with_every_kind_at_once_is_taken_as_it_is_and_reaches_the_run(
    client: AsyncOpenAI, api: Api, order: dict[str, Any], customer: LoopbackEndpoint
) -> None:
    wanted = graded_by(order, everything(customer))
    wanted["method"]["reinforcement"]["response_format"] = RESPONSE_FORMAT

    created: Any = await client.fine_tuning.jobs.create(**wanted, metadata={"team": "a"})

    assert len(customer.endpoint.calls) == 1, "the endpoint inside was probed"
    shown = json.loads(created.to_json(warnings=False))["method"]["reinforcement"]
    hidden = copy.deepcopy(everything(customer))
    hidden["graders"]["remote"]["headers"] = {"Authorization": "**********"}
    assert shown["grader"] == {**hidden, "name": shown["grader"]["name"]}
    assert shown["grader"]["name"].startswith("grader-")
    assert shown["response_format"] == RESPONSE_FORMAT
    job = await stored(api, created.id)
    assert "part-secret" not in job.model_dump_json(exclude={"secrets"})
    assert job.secrets is not None
    opened = SecretBox.at(api.settings.home).unseal(job.secrets)
    assert opened.part_headers == {"remote": {"Authorization": "Bearer part-secret"}}
    spec = to_run_spec(job, resolve(Hyperparameters(), train_rows=4), api.settings, "/nowhere")
    assert isinstance(spec.grader, MultiGrader)
    assert spec.grader.graders.keys() == {"exact", "close", "health", "code", "remote"}
    assert spec.judge is not None
    assert "secret" not in spec.model_dump_json()


async def test_the_guides_score_model_and_our_ruler_stand_alone(
    client: AsyncOpenAI, api: Api, order: dict[str, Any]
) -> None:
    scored = await client.fine_tuning.jobs.create(**graded_by(order, SCORE))
    ranked = await client.fine_tuning.jobs.create(**graded_by(order, {"type": "ruler", "model": "judge-1"}))

    specs = [
        to_run_spec(await stored(api, job.id), resolve(Hyperparameters(), train_rows=4), api.settings, "/nowhere")
        for job in (scored, ranked)
    ]
    assert isinstance(specs[0].grader, ScoreModelGrader)
    assert (specs[0].grader.name, specs[0].grader.sampling_params.max_completion_tokens) == ("score_health", 32768)
    assert isinstance(specs[1].grader, RulerGrader)


async def test_what_is_wrong_deep_inside_is_named(
    client: AsyncOpenAI, order: dict[str, Any], customer: LoopbackEndpoint
) -> None:
    cases: list[tuple[tuple[str, ...], Any, str, str]] = [
        (("graders", "exact", "reference"), "{{ row.x }}", "graders.exact.reference", "invalid_value"),
        (("graders", "health", "sampling_params", "seed"), "x", "graders.health.sampling_params.seed", "invalid_value"),
        (("graders", "code", "source"), "def grade(", "graders.code.source", "invalid_value"),
        (("graders", "remote", "url"), "http://10.1.2.3/", "graders.remote.url", "grader_unreachable"),
        (("calculate_output",), "exact + lost", "calculate_output", "invalid_value"),
    ]
    for path, value, param, code in cases:
        grader = everything(customer)
        here = grader
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = value
        with pytest.raises(BadRequestError) as refused:
            await client.fine_tuning.jobs.create(**graded_by(order, grader))
        assert (refused.value.param, refused.value.code) == (f"method.reinforcement.grader.{param}", code)


async def test_the_openapi_document_knows_every_kind(client: AsyncOpenAI) -> None:
    document = await client.get("/../openapi.json", cast_to=dict[str, Any])

    schemas = document["components"]["schemas"]
    assert {"MultiGrader", "RulerGrader", "ScoreModelGrader", "GraderRunObject", "RegradeObject"} <= schemas.keys()
    assert "/v1/fine_tuning/alpha/graders/run" in document["paths"]
    assert "/v1/fine_tuning/jobs/{fine_tuning_job_id}/regrade/{regrade_id}" in document["paths"]
