"""A kept checkpoint is evaluated again without leaving a trace in its run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rft.chat.template_format import TemplateChatFormat
from rft.core.errors import RftError
from rft.core.spec import RunSecrets, RunSpec
from rft.engines.base import Engine
from rft.engines.choose import open_engine
from rft.rollouts.connections import CustomerConnections, open_connections
from rft.run_directory import layout
from rft.run_directory.files import read_spec
from rft.trainer.evaluate import Wanted, evaluate
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, row, write_run

pytestmark = pytest.mark.timeout(900)


@pytest.mark.slow
def test_a_checkpoint_is_evaluated_again_under_names_of_its_own(
    customer: Customer, base_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list[str]()

    def opened(spec: RunSpec, secrets: RunSecrets, chat_format: TemplateChatFormat, folder: Path) -> Engine:
        names.append(spec.job_id)
        return open_engine(spec, secrets, chat_format, folder)

    async def connected(spec: RunSpec, secrets: RunSecrets) -> CustomerConnections:
        names.append(spec.job_id)
        return await open_connections(spec, secrets)

    monkeypatch.setattr("rft.trainer.evaluate.open_engine", opened)
    monkeypatch.setattr("rft.trainer.evaluate.open_connections", connected)
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    log = (run_dir / layout.EVENTS).read_bytes()
    calls = len(customer.received)
    (done,) = evaluate(run_dir, RunSecrets(), Wanted(steps=(1,)))
    assert (done.step, done.temperature, done.samples) == (1, 0.0, 1)
    assert (done.stats.rollouts, done.stats.graded, done.stats.excluded) == (3, 3, 0)
    assert len(customer.received) > calls, "tools and grader were asked again"
    in_training = {received.trace_id for received in customer.received[:calls]}
    assert not in_training & {received.trace_id for received in customer.received[calls:]}
    assert (run_dir / layout.EVENTS).read_bytes() == log
    assert len(names) == 2
    assert read_spec(run_dir).job_id not in names, "servers and gateway services would forget what the run has there"


@pytest.mark.slow
def test_untrained_and_trained_policy_on_rows_of_ones_own_at_several_temperatures(
    customer: Customer, teachable_model: Path, tmp_path: Path
) -> None:
    run_dir = write_run(
        tmp_path / "run", teachable_model, customer.url, steps=3, engine="transformers", learning_rate=0.05
    )
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    own = tmp_path / "own.jsonl"
    own.write_text("\n".join(row(500 + i) for i in range(5)))
    calls = len(customer.received)

    def measured(seed: int) -> list[str]:
        wanted = Wanted((3, 0), (0.0, 1.0), samples=2, seed=seed, rows=own)
        told = {"reward_mean", "completion_tokens_total"}
        return [done.stats.model_dump_json(include=told) for done in evaluate(run_dir, RunSecrets(), wanted)]

    done = evaluate(run_dir, RunSecrets(), Wanted((3, 0), (0.0, 1.0), samples=2, rows=own))
    asked = {json.dumps(received.body["item"]) for received in customer.received[calls:]}
    assert all("Question 50" in item for item in asked), "the rows that were given, and no others"
    assert [(one.step, one.temperature, one.samples) for one in done] == [
        (0, 0.0, 1),
        (0, 1.0, 2),
        (3, 0.0, 1),
        (3, 1.0, 2),
    ]
    assert [one.stats.rollouts for one in done] == [5, 10, 5, 10]
    for one in done:
        assert one.reward is not None
        assert one.reward.rows == 5
        assert one.reward.low <= one.reward.mean <= one.reward.high
    first, same, other = measured(0), measured(0), measured(1)
    assert first == same, "the same seed, the same samples"
    assert first[0] == other[0]
    assert first[1] != other[1]
    assert first[0] != first[2], "step 0 samples from the base model, step 3 from its adapter"


@pytest.mark.slow
def test_a_step_whose_checkpoint_is_gone_is_refused_in_words(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    with pytest.raises(RftError, match="no checkpoint of step 7"):
        evaluate(run_dir, RunSecrets(), Wanted(steps=(7,)))
    command = [sys.executable, "-m", "rft.trainer.evaluate", str(run_dir), "--step", "7"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("keeps no checkpoint of step 7")
