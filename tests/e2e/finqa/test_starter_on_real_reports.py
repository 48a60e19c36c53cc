"""The starter on real company reports: pages far longer than it knows, questions far beyond it. It must say so."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.finqa.finqa_stack import Stack
from tests.shared.quick_starter import cache_of, command
from tests.shared.running_platform import RunningPlatform

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    # The starter in a whole platform: tests/e2e/demo; no signal: tests/unit/trainer/test_tool_answers.py; the same
    # tools and rows: test_real_reports.py.
    pytest.mark.thorough,
]


@pytest.fixture(scope="module")
def stack(home: Path, server_url: str, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    """A platform with the default engine, on which nobody has built the starter yet."""
    few = tmp_path_factory.mktemp("few")
    for name, rows in (("train", 2), ("valid", 2)):
        lines = (data / f"{name}.jsonl").read_text().splitlines(keepends=True)
        (few / f"{name}.jsonl").write_text("".join(lines[:rows]))
    build = command(cache_of(tmp_path_factory))
    platform = RunningPlatform.start(home, {"RFT_STARTER_COMMAND": json.dumps(build), "RFT_TORCH_THREADS": "1"})
    try:
        yield Stack.upload(platform.client(), server_url, few)
    finally:
        platform.end()


def test_the_starter_survives_long_pages_and_reports_that_there_is_no_signal(stack: Stack) -> None:
    job = stack.launch("starter", {"n_epochs": 2, "batch_size": 2, "compute_multiplier": 0.5})
    assert job.status == "succeeded", job.error
    steps = stack.steps(job.id)
    assert [record["step"] for record in steps] == [0, 1, 2]
    assert steps[0]["valid"]["tool_calls_mean"] > 0
    assert all(record["train"]["zero_variance_groups"] == 2 for record in steps[1:])
    assert all(record["train"]["excluded"] == 0 for record in steps[1:])
    messages = [event.message for event in stack.client.fine_tuning.jobs.list_events(job.id, limit=100)]
    assert any(message.startswith("No signal in this dataset") for message in messages), messages
    assert any("starter" in message.lower() for message in messages), "building it on first use is told"
