"""`make bench-web` at toy size, so that it still runs when somebody needs its figures. Nothing here is a timing."""

from tests.bench.api_data import Size
from tests.bench.web import FILTERS, SORTS, run

EMPTY = {"filter_reward_of_none", "filter_stop_reason_of_none", "filter_fault_of_none", "filter_tool_of_none"} | {
    "filter_tokens_of_none",
    "filter_seconds_of_none",
    "filter_word_of_none",
    "neighbours",
}


async def test_every_case_asks_for_what_its_name_says(database_url: str) -> None:
    report = await run(database_url, Size(rollouts=6000, steps=420, jobs=2, large_share=0.9))
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
