"""Health of registered tools, read off the ledger of the last job that used them."""

from collections.abc import AsyncIterator
from typing import LiteralString

import pytest
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.registry.objects import to_health
from rft.platform.registry.repository import LastTest, RegistrationRepository, Use
from rft.platform.store.database import Database

JOB: LiteralString = (
    "insert into jobs (id, status, model, base_model_path, training_file, seed, method, request, started_at,"
    " current_step) values (%s, 'succeeded', 'tiny', '/m', 'file-1', 1, '{}', '{}', to_timestamp(%s), %s)"
)
ATTEMPT: LiteralString = (
    "insert into attempts (job_id, step, trace_id, stage, endpoint, call_id, attempt, code, latency_ms, queued_ms,"
    " sent_bytes, received_bytes, at) values (%s, %s, 'trace_1', %s, %s, 'call_1', 1, %s, 5, 0, 1, 1,"
    " to_timestamp(%s))"
)


@pytest.fixture
async def connection(migrated_url: str) -> AsyncIterator[AsyncConnection[TupleRow]]:
    """A transaction on our tables."""
    async with Database(migrated_url) as database, database.transaction() as opened:
        yield opened


async def with_job(
    connection: AsyncConnection[TupleRow],
    name: str,
    *,
    started_at: float,
    step: int,
    calls: list[tuple[int, str | None]],
) -> None:
    """A job that used tool_1 as `search`; `calls` are (step, code)."""
    job_id = f"ftjob-{name}"
    await connection.execute(JOB, (job_id, started_at, step))
    await RegistrationRepository(connection).add_uses(job_id, [Use(registration_id="tool_1", endpoint="search")])
    for number, (at_step, code) in enumerate(calls):
        await connection.execute(ATTEMPT, (job_id, at_step, "tool", "search", code, started_at + number))
        await connection.execute(ATTEMPT, (job_id, at_step, "tool", "other", "timeout", started_at + number))


async def test_only_the_newest_steps_of_the_last_job_count(connection: AsyncConnection[TupleRow]) -> None:
    stored = RegistrationRepository(connection)
    row = await stored.insert("tool", "tool_1", {"name": "search", "server_url": "http://h/"}, b"")
    assert await stored.seen("tool", ["tool_1", "tool_2"]) == {}
    assert to_health(row, None).status == "unknown"
    await with_job(connection, "old", started_at=1000, step=3, calls=[(3, "timeout")] * 4)
    newer: list[tuple[int, str | None]] = [(1, "timeout"), (4, None), (5, "server_error"), (5, None), (5, None)]
    await with_job(connection, "new", started_at=2000, step=5, calls=newer)
    await with_job(connection, "untouched", started_at=1500, step=0, calls=[])
    (seen,) = (await stored.seen("tool", ["tool_1", "tool_2"])).values()
    assert (seen.attempts, seen.failures, seen.last_failure) == (4, 1, "server_error")
    assert seen.client_errors == 0
    health = to_health(row, seen)
    assert (health.status, health.error_share, health.last_seen) == ("degraded", 0.25, 2004)
    assert await stored.seen("grader", ["tool_1"]) == {}, "another stage"


async def test_a_multi_grader_answers_for_all_of_its_parts(connection: AsyncConnection[TupleRow]) -> None:
    stored = RegistrationRepository(connection)
    await stored.insert("grader", "grader_1", {"name": "both", "type": "multi"}, b"")
    await connection.execute(JOB, ("ftjob-a", 1000.0, 0))
    parts = [Use(registration_id="grader_1", endpoint=name) for name in ("close", "remote", "exact")]
    await stored.add_uses("ftjob-a", [*parts, *parts])
    for endpoint, code in (("close", None), ("close", "timeout"), ("remote", None), ("both", "timeout")):
        await connection.execute(ATTEMPT, ("ftjob-a", 0, "grader", endpoint, code, 1000.0))
    (seen,) = (await stored.seen("grader", ["grader_1"])).values()
    assert (seen.attempts, seen.failures, seen.last_failure) == (3, 1, "timeout")


@pytest.mark.parametrize(
    ("failures", "status"), [(0, "healthy"), (1, "healthy"), (2, "degraded"), (10, "degraded"), (11, "failing")]
)
async def test_shares_become_words(connection: AsyncConnection[TupleRow], failures: int, status: str) -> None:
    stored = RegistrationRepository(connection)
    row = await stored.insert("tool", "tool_1", {"name": "search", "server_url": "http://h/"}, b"")
    calls: list[tuple[int, str | None]] = [(0, "timeout" if number < failures else None) for number in range(20)]
    await with_job(connection, "a", started_at=1000, step=0, calls=calls)
    (seen,) = (await stored.seen("tool", ["tool_1"])).values()
    assert to_health(row, seen).status == status


async def test_what_is_newer_counts(connection: AsyncConnection[TupleRow]) -> None:
    stored = RegistrationRepository(connection)
    await stored.insert("tool", "tool_1", {"name": "search", "server_url": "http://h/"}, b"")
    await with_job(connection, "a", started_at=1000, step=0, calls=[(0, None)])
    (seen,) = (await stored.seen("tool", ["tool_1"])).values()
    for at, status in ((999.0, "healthy"), (1001.0, "failing")):
        await stored.keep_test("tool_1", LastTest(at=at, is_ok=False, latency_s=0.1, message="refused"))
        row = await stored.get("tool", "tool_1")
        assert row is not None
        assert to_health(row, seen).status == status


async def test_a_tool_that_answers_4xx_to_nearly_every_call_is_not_healthy(
    connection: AsyncConnection[TupleRow],
) -> None:
    stored = RegistrationRepository(connection)
    row = await stored.insert("tool", "tool_1", {"name": "search", "server_url": "http://h/"}, b"")
    await with_job(connection, "lost", started_at=1000, step=1, calls=[(1, None)] * 20)
    await connection.execute("update attempts set status = 404 where endpoint = 'search'")
    (seen,) = (await stored.seen("tool", ["tool_1"])).values()
    health = to_health(row, seen)
    assert (health.status, health.error_share, health.client_error_share) == ("degraded", 0.0, 1.0)
    await connection.execute(
        "update attempts set status = 200 where id in (select min(id) + 2 * n from attempts,"
        " generate_series(0, 1) n group by n)"
    )
    (seen,) = (await stored.seen("tool", ["tool_1"])).values()
    assert (to_health(row, seen).status, to_health(row, seen).client_error_share) == ("healthy", 0.9)
