"""A run that is ordered twice under one key is made once: a provider's tokens are paid once."""

import asyncio
from typing import Any

import openai
import pytest

from tests.integration.evals.stage import Stage, inline, row

SOURCE: Any = inline(row("7", "7"))
KEY = {"Idempotency-Key": "nightly"}


async def test_the_same_order_gives_the_same_run_also_at_once(stage: Stage) -> None:
    eval_id = await stage.make()
    runs = stage.client.evals.runs
    made = await asyncio.gather(
        *(runs.create(eval_id, name="night", data_source=SOURCE, extra_headers=KEY) for _ in range(4))
    )
    assert len({run.id for run in made}) == 1
    assert [run.id async for run in runs.list(eval_id)] == [made[0].id]
    other = await runs.create(eval_id, name="night", data_source=SOURCE)
    assert other.id != made[0].id, "without a key every order is one"


async def test_another_order_under_the_key_is_refused_and_makes_nothing(stage: Stage) -> None:
    eval_id, elsewhere = await stage.make(), await stage.make()
    runs = stage.client.evals.runs
    await runs.create(eval_id, data_source=SOURCE, extra_headers=KEY)
    for eval_, name in ((eval_id, "another"), (elsewhere, openai.omit)):
        with pytest.raises(openai.BadRequestError) as refused:
            await runs.create(eval_, name=name, data_source=SOURCE, extra_headers=KEY)
        assert refused.value.code == "idempotency_key_reused"
    assert len([run async for run in runs.list(eval_id)]) == 1
    assert [run async for run in runs.list(elsewhere)] == []


async def test_a_refused_order_and_a_deleted_run_use_no_key_up(stage: Stage) -> None:
    eval_id = await stage.make()
    runs = stage.client.evals.runs
    missing: Any = {"type": "jsonl", "source": {"type": "file_id", "id": "file-none"}}
    with pytest.raises(openai.BadRequestError):
        await runs.create(eval_id, data_source=missing, extra_headers=KEY)
    run = await runs.create(eval_id, data_source=SOURCE, extra_headers=KEY)
    await runs.delete(run.id, eval_id=eval_id)
    again = await runs.create(eval_id, data_source=SOURCE, extra_headers=KEY)
    assert again.id != run.id
