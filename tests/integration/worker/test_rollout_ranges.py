"""What some steps' rollouts have together is told as they are stored, so that filters look only where one may fit."""

import random
from typing import Any

import psycopg
import pytest

from rft.core.events import RolloutDone, RunStarted
from rft.core.failure import FAULTS, Failure, FailureCode, Fault, Stage
from rft.core.grade import Grade
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.platform.rollouts.filters import RolloutFilter
from rft.platform.rollouts.range_repository import steps_that_may_fit
from rft.platform.store.migrations import migrate, shipped
from rft.testing.trace_ids import trace_id_at
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.test_rollout_search import rollout_at
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import logged

FAILURE = Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="no")
COMMON: dict[str, Any] = {
    "outcome": Grade(reward=0.5, grader="judge"),
    "stop_reason": StopReason.COMPLETED,
    "tool_calls": {"search": 1},
    "completion_tokens": 20,
    "duration_s": 1.0,
}
SELDOM: dict[str, dict[str, Any]] = {
    "min_reward": {"outcome": Grade(reward=0.9, grader="judge")},
    "max_reward": {"outcome": Grade(reward=0.1, grader="judge")},
    "outcome": {"outcome": FAILURE, "stop_reason": None},
    "failure_code": {"outcome": FAILURE, "stop_reason": None},
    "fault": {"outcome": FAILURE, "stop_reason": None},
    "stop_reason": {"stop_reason": StopReason.MAX_TURNS},
    "tool": {"tool_calls": {"cat": 1}},
    "min_tokens": {"completion_tokens": 30},
    "max_tokens": {"completion_tokens": 10},
    "min_duration_s": {"duration_s": 2.0},
    "max_duration_s": {"duration_s": 0.5},
}
"""What one rollout has that no other has, by the filter that finds it."""
WANTED: dict[str, Any] = {
    "min_reward": 0.6,
    "max_reward": 0.4,
    "outcome": "failed",
    "failure_code": "timeout",
    "fault": FAULTS[FailureCode.TIMEOUT],
    "stop_reason": "max_turns",
    "tool": "cat",
    "min_tokens": 25,
    "max_tokens": 15,
    "min_duration_s": 1.5,
    "max_duration_s": 0.7,
}
NOWHERE: dict[str, Any] = {
    "min_reward": 0.95,
    "max_reward": 0.05,
    "failure_code": "server_error",
    "fault": Fault.PLATFORM,
    "stop_reason": "context_full",
    "min_tokens": 31,
    "max_tokens": 9,
    "min_duration_s": 2.5,
    "max_duration_s": 0.4,
}
RANGES = "select * from rollout_ranges order by job_id, split, steps"


def rollout(job_id: str, step: int, index: int = 0, *, split: Split = Split.TRAIN, **changed: Any) -> RolloutDone:
    key = RolloutKey(job_id=job_id, job_seed=1, split=split, step=step, epoch=0, row_index=0, index=index)
    return rollout_at(key, random.Random(1)).model_copy(update={"trace_id": trace_id_at(key), **COMMON, **changed})


async def stored(bench: Workbench, *, seldom: dict[str, Any], at: int) -> str:
    """A job of 200 steps whose rollouts are all alike, but for one; each step is stored by itself."""
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, logged([RunStarted(resumed_from_step=None, total_steps=200, pid=1)]))
    told = 1
    for step in range(0, 200, 10):
        made = [rollout(job_id, step), rollout(job_id, step, split=Split.VALID)]
        if step == at:
            made.append(rollout(job_id, step, 1, **seldom))
        await store(bench, ingest, logged(made, after=told))
        told += len(made)
    return job_id


@pytest.mark.parametrize("name", SELDOM)
async def test_what_few_steps_have_is_looked_for_only_there(bench: Workbench, name: str) -> None:
    job_id = await stored(bench, seldom=SELDOM[name], at=100)
    async with await psycopg.AsyncConnection.connect(bench.database_url) as connection:
        wanted = RolloutFilter.model_validate({name: WANTED[name]})
        bit = await (
            await connection.execute("select bit from called_tools where job_id = %s and name = 'cat'", (job_id,))
        ).fetchone()
        values = {**wanted.model_dump(), "fault_codes": wanted.fault_codes, "job_id": job_id}
        values["tool_bit"] = bit and bit[0]
        assert await steps_that_may_fit(connection, wanted, values) == (96, 127)
        from_there = wanted.model_copy(update={"from_step": 100, "to_step": 110})
        assert await steps_that_may_fit(connection, from_there, values) == (100, 110)
        later = wanted.model_copy(update={"from_step": 128})
        assert await steps_that_may_fit(connection, later, values) is None
        elsewhere = wanted.model_copy(update={"split": Split.VALID})
        assert await steps_that_may_fit(connection, elsewhere, values | {"split": "valid"}) is None
        if name in NOWHERE:
            never = RolloutFilter.model_validate({name: NOWHERE[name]})
            values = {**never.model_dump(), "fault_codes": never.fault_codes, "job_id": job_id}
            assert await steps_that_may_fit(connection, never, values) is None


async def test_rollouts_that_were_there_before_have_ranges_too(database_url: str) -> None:
    earlier = [migration for migration in shipped() if migration.name < "0078"]
    await migrate(database_url, earlier)
    insert = (
        "insert into rollouts (trace_id, job_id, split, step, epoch, row_index, group_index, attempt, policy_version,"
        " reward, failure_code, stop_reason, tool_calls, completion_tokens, duration_s,"
        " tool_bits, record) select %(prefix)s || n, %(job)s, 'train', n, 0, 0, 0, 0, 0,"
        " case when n %% 7 > 0 then n / 100.0 end, case when n %% 7 = 0 then 'timeout' end,"
        " case when n %% 7 > 0 then 'stop_' || n %% 3 end, 1, n, n / 10.0, n, '{}' from generate_series(0, 99) n"
    )
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "insert into jobs (id, status, model, base_model_path, training_file, seed, method, request)"
            " select id, 'running', 'm', 'm', 'file-1', 1, '{}', '{}' from (values ('one'), ('two')) as made (id)"
        )
        await connection.execute(insert, {"prefix": "before_", "job": "one"})
        await migrate(database_url)
        await connection.execute(insert, {"prefix": "since_", "job": "two"})
        rows = await (await connection.execute(RANGES)).fetchall()
        await connection.execute("delete from jobs")
        assert await (await connection.execute(RANGES)).fetchall() == []
    before, since = ([row[1:] for row in rows if row[0] == job] for job in ("one", "two"))
    assert len(before) == 4
    assert before == since
