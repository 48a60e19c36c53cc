"""A reward and the interval beside it are of one mean, in steps of earlier releases too."""

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from rft.core.estimates import RewardEstimate
from rft.core.events import RunStarted, StepDone
from rft.platform.rollouts.curve_repository import CurveRepository
from rft.platform.store.migrations import migrate, shipped
from rft.platform.worker.metrics_event import flat_metrics
from rft.platform.worker.step_bucket_repository import BUCKET, store_buckets
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import logged, stats, step_done

LOST_HARD_ROWS = stats(12 / 13).model_copy(
    update={"reward_estimate": RewardEstimate(mean=0.75, low=0.516, high=0.894, rows=20)}
)
"""Of 15 easy rows all rollouts were graded, of 5 hard ones one each."""
UNESTIMATED = stats(0.9).model_copy(update={"reward_estimate": None})


def a_step(number: int) -> StepDone:
    update = {"train": UNESTIMATED, "valid": LOST_HARD_ROWS if number == 20 else step_done(number, BUCKET).valid}
    return step_done(number, BUCKET).model_copy(update=update)


async def test_a_step_has_the_reward_of_its_rows(bench: Workbench) -> None:
    ingest = await leased(bench)
    started = RunStarted(resumed_from_step=None, total_steps=BUCKET, pid=1)
    await store(bench, ingest, logged([started, a_step(0), a_step(20)]))
    async with bench.database.transaction() as connection:
        record = json.loads(await CurveRepository(connection).points(ingest.lease.id, [20]))["record"]
    assert [record["valid"][f"reward_{name}"] for name in ("mean", "low", "high")] == [0.75, 0.516, 0.894]
    assert [record["train"][f"reward_{name}"] for name in ("mean", "low", "high")] == [0.9, None, None]


async def test_steps_that_were_there_before_have_the_reward_of_their_rows(database_url: str) -> None:
    await migrate(database_url, [migration for migration in shipped() if migration.name < "0081"])
    steps = [a_step(number) for number in range(BUCKET)]
    rows: list[Any] = [("one", step.step, Jsonb(step.model_dump(mode="json"))) for step in steps]
    # What an earlier release had for a checkpoint.
    metrics = flat_metrics(steps[20]) | {"full_valid_mean_reward": 12 / 13}
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "insert into jobs (id, status, model, base_model_path, training_file, seed, method, request)"
            " values ('one', 'running', 'm', 'm', 'file-1', 1, '{}', '{}')"
        )
        async with connection.cursor() as cursor:
            await cursor.executemany("insert into steps (job_id, step, record) values (%s, %s, %s)", rows)
        await store_buckets(connection, "one", first=0, last=BUCKET - 1)
        await connection.execute(
            "insert into checkpoints (id, job_id, step, path, metrics) values ('c', 'one', 20, '', %s)",
            (Jsonb(metrics),),
        )
        await migrate(database_url)
        [(found,)] = await (await connection.execute("select metrics from checkpoints")).fetchall()
        rewards = await connection.execute("select train_reward, valid_reward, drawn from steps where step = 20")
        [(train, valid, drawn)] = await rewards.fetchall()
        [(migrated,)] = await (await connection.execute("select extremes from step_buckets")).fetchall()
        await store_buckets(connection, "one", first=0, last=BUCKET - 1)
        [(stored,)] = await (await connection.execute("select extremes from step_buckets")).fetchall()
    assert found == flat_metrics(steps[20])
    assert (train, valid) == (0.9, 0.75)
    assert drawn["valid"]["reward_mean"] == pytest.approx(0.75)
    assert sorted(migrated) == sorted(stored)
