"""`make bench-serve` at toy size, so that it still runs when somebody needs its figures. Nothing here is a timing."""

from pathlib import Path

import pytest

from rft.core.base import JsonObject
from rft.platform.store.migrations import migrate
from tests.bench.serve import CPU_BAR_MS, Size, missed, run


@pytest.mark.thorough  # What it asks for is asked in tests/integration/serving.
async def test_every_case_runs_and_reports_its_bar(database_url: str) -> None:
    report = await run(database_url, Size(streams=3, rounds=2, tokens=8, crowd=4, crowd_tokens=4))
    cases = report["cases"]
    assert isinstance(cases, dict)
    assert set(cases) == {"chat_completions", "responses", "crowd"}
    for case in cases.values():
        assert isinstance(case, dict)
        assert {"bar", "passed"} <= set(case)
    for name in ("chat_completions", "responses"):
        figures = cases[name]
        assert isinstance(figures, dict)
        assert isinstance(figures["control"], dict)
        assert isinstance(figures["bar"], dict)
        assert float(str(figures["control"]["first_p50_ms"])) >= 25, "at 40 tokens a second"
        assert figures["bar"]["cpu_ms_per_token_calibrated"] == CPU_BAR_MS


@pytest.mark.slow
@pytest.mark.thorough
async def test_a_cold_checkpoint_is_asked(database_url: str, tmp_path: Path) -> None:
    from rft.starter.tokenizer import build_tokenizer
    from tests.bench.cold_checkpoint import cold_checkpoint
    from tests.shared.by_hand import tiny_model

    tokenizer = build_tokenizer()
    tiny_model(tokenizer, head_std=0.5).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    await migrate(database_url)
    figures = await cold_checkpoint(database_url, tmp_path)
    assert set(figures) == {"no_process_s", "same_again_s", "another_adapter_s", "base_model_s"}


def test_what_nobody_names_is_of_full_size_and_every_bar_counts() -> None:
    assert (Size().streams, Size().crowd) == (64, 200)
    cases: JsonObject = {"crowd": {"passed": False}, "responses": {"passed": True}}
    assert missed({"cases": cases}) == ["crowd"]
