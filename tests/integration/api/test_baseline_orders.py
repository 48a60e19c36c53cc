"""Orders that name baselines: models that are not there are refused by place, and the job shows what was measured."""

from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError
from psycopg.types.json import Jsonb

from rft.platform.lifecycle.records import BaselineFigures
from tests.shared.running_api import EXACT, upload

RULER: dict[str, Any] = {"type": "ruler", "name": "ruler", "model": "judge"}
FIGURES = BaselineFigures(
    model="acme/small",
    reward=None,
    rollouts=3,
    graded=0,
    failures={"unauthorized": 3},
    error="Provider 'acme' answered 401",
    prompt_tokens=0,
    cached_tokens=0,
    completion_tokens=0,
    turns_without_usage=0,
    tool_calls=0,
    cost=None,
    duration_s=1.5,
)


async def order(client: AsyncOpenAI, *, has_validation: bool = True, grader: Any = EXACT, **more: Any) -> Any:
    file = await upload(client)
    method: Any = {"type": "reinforcement", "reinforcement": {"grader": grader, **more}}
    files: Any = {"validation_file": (await upload(client)).id} if has_validation else {}
    return await client.fine_tuning.jobs.create(model="tiny", training_file=file.id, method=method, **files)


async def provider(client: AsyncOpenAI) -> None:
    body = {"name": "acme", "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-live-0123456789"}
    await client.post("/providers", body=body, cast_to=object)


async def test_baselines_are_kept_with_the_order_and_shown_once_measured(
    client: AsyncOpenAI, migrated_url: str
) -> None:
    await provider(client)
    job = await order(client, baselines=["acme/small", "acme/lab/large"])
    assert job.to_dict()["method"]["reinforcement"]["baselines"] == ["acme/small", "acme/lab/large"]
    assert job.to_dict()["baselines"] is None
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        connection.execute("update jobs set baselines = %s", (Jsonb([FIGURES.model_dump(mode="json")]),))
    shown = (await client.fine_tuning.jobs.retrieve(job.id)).to_dict()
    assert shown["baselines"] == [FIGURES.model_dump(mode="json")]


@pytest.mark.parametrize(
    ("names", "param", "code"),
    [
        (["acme/small", "nobody/small"], "[1]", "model_not_found"),
        (["no-such-model"], "[0]", "model_not_found"),
        (["ft:tiny:local::12345678:ckpt-step-3"], "[0]", "model_not_found"),
        (["lost"], "[0]", "model_not_ready"),
        (["acme/small"] * 2, "", "invalid_value"),
        ([""], "", "invalid_value"),
        ([f"acme/{n}" for n in range(9)], "", "invalid_value"),
        ("acme/small", "", "invalid_value"),
    ],
)
async def test_what_cannot_be_measured_is_refused_by_place(
    client: AsyncOpenAI, names: Any, param: str, code: str
) -> None:
    await provider(client)
    with pytest.raises(BadRequestError) as raised:
        await order(client, baselines=names)
    assert raised.value.param == f"method.reinforcement.baselines{param}"
    assert raised.value.code == code
    assert (await client.fine_tuning.jobs.list()).data == [], "nothing is half created"


async def test_without_validation_rows_they_have_no_effect(client: AsyncOpenAI) -> None:
    await provider(client)
    job = await order(client, has_validation=False, baselines=["acme/small"])
    events: Any = (await client.fine_tuning.jobs.list_events(job.id)).data
    fields = [event.data["fields"] for event in events if (event.data or {}).get("code") == "fields_without_effect"]
    assert fields == [["method.reinforcement.baselines"]]
