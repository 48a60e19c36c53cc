"""A kept checkpoint is evaluated again without leaving a trace in its run."""

from pathlib import Path

import pytest

from rft.core import run_layout
from rft.core.spec import RunSecrets
from rft.trainer.evaluate import evaluate
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, write_run

pytestmark = pytest.mark.timeout(900)


@pytest.mark.slow
def test_a_checkpoint_is_evaluated_again_under_trace_ids_of_its_own(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    log = (run_dir / run_layout.EVENTS).read_bytes()
    calls = len(customer.received)
    stats = evaluate(run_dir, RunSecrets(), step=1, temperature=0.0)
    assert (stats.rollouts, stats.graded, stats.excluded) == (3, 3, 0)
    assert len(customer.received) > calls, "tools and grader were asked again"
    assert (run_dir / run_layout.EVENTS).read_bytes() == log
