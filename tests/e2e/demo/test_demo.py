"""`make demo` in small: everything it starts, what it prints on a narrow terminal, and the way back to the run."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from rft.chat.opening import open_saved_chat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.rollout import Rollout, StopReason
from tests.shared.customer_loop import converse, own_rollout

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
COLUMNS = 30

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


@dataclass(frozen=True, slots=True)
class Shown:
    """What somebody saw who ran the demo in a narrow terminal."""

    out: Path
    lines: list[str]
    report: dict[str, Any]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    from tests.shared.quick_starter import cache_of, give_quick_starter

    out = tmp_path_factory.mktemp("demo") / "a home with blanks"
    give_quick_starter(cache_of(tmp_path_factory), out / "home" / "starter")
    command = [sys.executable, ROOT / "examples" / "demo.py", "--quick", "--out", out, "--seed", "3"]
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "dumb", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return Shown(out, done.stdout.splitlines(), json.loads((out / "report.json").read_text()))


def test_the_dashboard_link_is_on_one_line_that_can_be_copied(shown: Shown) -> None:
    (line,) = [line for line in shown.lines if line.startswith("dashboard: ")]
    assert re.fullmatch(r"dashboard: http://127\.0\.0\.1:\d+/\S+", line)
    assert len(line) > COLUMNS


def test_the_figures_are_of_the_test_rows_for_both_policies_at_every_temperature(shown: Shown) -> None:
    for policy in ("untrained", "trained"):
        told = shown.report["test"][policy]
        assert set(told) == {"T=1", "T=0.3", "greedy"}
        for figures in told.values():
            low, high = figures["reward_interval_95"]
            assert 0 <= low <= figures["reward"] <= high <= 1
    job_folder = next((shown.out / "home" / "runs").iterdir())
    in_training = (job_folder / "train.jsonl").read_text() + (job_folder / "valid.jsonl").read_text()
    test_rows = [json.loads(line) for line in (shown.out / "work" / "data" / "test.jsonl").read_text().splitlines()]
    assert len(test_rows) == 8
    assert all(row["company"] not in in_training for row in test_rows)
    assert shown.report["seed"] == 3


@pytest.fixture
def again(shown: Shown) -> Generator[subprocess.Popen[bytes]]:
    """The platform as the demo's last line starts it."""
    (line,) = [line for line in shown.lines if line.startswith("see the run again: ")]
    assert line == shown.lines[-1]
    command = ["bash", "-c", f"exec env RFT_PORT=0 {line.removeprefix('see the run again: ')}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as child:
        yield child
        child.send_signal(signal.SIGINT)
        child.wait(300)


def test_the_last_line_brings_the_run_back(shown: Shown, again: subprocess.Popen[bytes]) -> None:
    connection = shown.out / "home" / "connection.json"
    deadline = time.monotonic() + 120
    while not connection.exists():
        assert again.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    told = json.loads(connection.read_text())
    with OpenAI(base_url=told["base_url"], api_key=told["api_key"]) as client:
        (job,) = client.fine_tuning.jobs.list()
        assert (job.status, job.model) == ("succeeded", "starter")
        assert job.fine_tuned_model is not None
        _converse_as_in_rollouts(client, job.fine_tuned_model, shown)


def _converse_as_in_rollouts(client: OpenAI, model: str, shown: Shown) -> None:
    """The customer's own loop on the trained starter has the token ids of the platform's rollouts of the same rows."""
    lines = (shown.out / "work" / "data" / "test.jsonl").read_text().splitlines()[:3]
    rows = [
        row
        for i, line in enumerate(lines)
        if isinstance(row := parse_row(line, line_number=i + 1, index=i), DatasetRow)
    ]
    own = asyncio.run(
        _own_rollouts(shown.out / "home", Path(str(client.models.retrieve(model).to_dict()["path"])), rows)
    )
    for row, rollout in zip(rows, own, strict=True):
        conversed = converse(client, model, dict(row.item), _look_up)
        length = min(len(conversed.token_ids), len(rollout.trace.token_ids))
        assert length > len(rollout.trace.prompt_ids)
        assert conversed.token_ids[:length] == rollout.trace.token_ids[:length]
        if rollout.stop_reason is StopReason.COMPLETED:
            assert conversed.token_ids == rollout.trace.token_ids
            assert conversed.rendered_again == 0


async def _own_rollouts(home: Path, checkpoint: Path, rows: list[DatasetRow]) -> list[Rollout]:
    from rft.engines.base_model import load_base_model
    from rft.engines.slot_engine import SlotEngine

    engine = SlotEngine(load_base_model(str(home / "starter")), max_context_tokens=1024)
    try:
        await engine.publish(1, checkpoint)
        chat_format = open_saved_chat(checkpoint)
        rollouts = [own_rollout(row, engine, chat_format, _look_up, max_tokens=600) for row in rows]
        return list(await asyncio.gather(*rollouts))
    finally:
        await engine.close()


def _look_up(name: str, arguments: str) -> str:
    """Tools in the customer's code: what they say does not matter here."""
    return f"{name}: {arguments}"[:60]
