"""`make bench-web` at toy size, so that it still runs when somebody needs its figures. Nothing here is a timing."""

import asyncio

import pytest

from rft.platform.store.migrations import migrate
from tests.bench.api_data import Size, fill
from tests.bench.api_server import api
from tests.bench.api_writes import Run
from tests.bench.web import FILTERS, SORTS, run
from tests.bench.web_watchers import watching

pytestmark = pytest.mark.thorough
"""What the bench itself asks of the API is asked in tests/integration/api and tests/e2e/web."""

EMPTY = {"filter_reward_of_none", "filter_stop_reason_of_none", "filter_fault_of_none", "filter_tool_of_none"} | {
    "filter_tokens_of_none",
    "filter_seconds_of_none",
    "filter_word_of_none",
    "neighbours",
}


async def test_every_case_asks_for_what_its_name_says(database_url: str) -> None:
    report = await run(database_url, Size(rollouts=6000, steps=420, jobs=2, large_share=0.9), frozenset({"api"}))
    cases = report["cases"]
    assert isinstance(cases, dict)
    assert len(cases) == len(FILTERS) + len(SORTS) + 1
    found: dict[str, object] = {}
    for name, case in cases.items():
        assert isinstance(case, dict)
        assert {"bar", "passed"} <= set(case)
        found[name] = case["found"]
    assert {name for name, count in found.items() if count == 0} == EMPTY
    assert found["filter_word_of_few"] == 1, "a rollout has the rare word every 400 steps"


async def test_each_watcher_hears_of_what_the_job_does(database_url: str) -> None:
    await migrate(database_url)
    stored = await asyncio.to_thread(fill, database_url, Size(rollouts=400, steps=20, jobs=2, large_share=0.9))
    async with api(database_url) as served:
        case = await watching(served, Run(stored), watchers=3, seconds=8, idle_s=0.1)
    told = case["job_messages"]
    assert isinstance(told, int)
    assert told >= 3 * 3
    assert case["requests_after_steps"] == 3 * 3, "a step ended, and each page asked three things"
    assert {"bar", "passed"} <= set(case)
