"""`make bench-api` at toy size, so that it still runs when somebody needs its figures. Nothing here is a timing."""

import asyncio

import psycopg

from rft.core.base import JsonObject
from rft.platform.store.migrations import migrate
from tests.bench.api import missed, run, wanted
from tests.bench.api_data import Size, fill
from tests.bench.api_text_index import without_index
from tests.bench.api_writes import Run, ingestion

READS = {"job_list", "job_page", "rollout_page", "rollout_search", "rollout_detail"}
WITHOUT_BAR = {"floor", "ingestion_with_ledger", "ingestion_with_tokens", "text_index"}
CASES = READS | WITHOUT_BAR | {"sse", "ingestion"}


async def test_every_case_runs_and_reports_its_bar(database_url: str) -> None:
    size = Size(rollouts=1000, steps=40, jobs=4)
    report = await run(database_url, size, loads=30, watchers=3, sse_s=1, ingested=600)
    cases = report["cases"]
    assert isinstance(cases, dict)
    assert set(cases) == CASES
    for name, case in cases.items():
        assert isinstance(case, dict)
        assert name in WITHOUT_BAR or {"bar", "passed"} <= set(case)
    assert isinstance(cases["sse"], dict)
    assert cases["sse"]["heard"] == cases["sse"]["expected"] == 2 * 3
    assert isinstance(cases["ingestion"], dict)
    assert cases["ingestion"]["rollouts"] == 600
    assert isinstance(cases["text_index"], dict)
    assert cases["text_index"]["rollouts"] == 600
    assert isinstance(cases["ingestion_with_ledger"], dict)
    assert cases["ingestion_with_ledger"]["attempts_per_rollout"] == 4


async def test_rollouts_can_be_stored_without_the_index_of_their_words(database_url: str) -> None:
    await migrate(database_url)
    run = Run(await asyncio.to_thread(fill, database_url, Size(rollouts=100, steps=4, jobs=2)))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:

        async def rows() -> tuple[int, int]:
            query = "select (select count(*) from rollouts), (select count(*) from rollout_terms)"
            row = await (await connection.execute(query)).fetchone()
            assert row is not None
            return row[0], row[1]

        rollouts, words = await rows()
        with without_index():
            await ingestion(run, rollouts=20)
        assert await rows() == (rollouts + 20, words)
        await ingestion(run, rollouts=20)
        assert await rows() == (rollouts + 40, words + 1)


def test_a_case_without_a_bar_misses_none() -> None:
    cases: JsonObject = {"floor": {"p95_ms": 900.0}, "job_list": {"passed": False}, "job_page": {"passed": True}}
    assert missed({"cases": cases}) == ["job_list"]


def test_what_nobody_names_is_of_full_size() -> None:
    assert wanted([])[0] == Size(rollouts=1_000_000, steps=10_000)
    assert wanted(["--rollouts", "10", "--steps", "2"])[0] == Size(rollouts=10, steps=2)
