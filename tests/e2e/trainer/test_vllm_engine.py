"""A run with a vLLM server of its own that will not do: paused with the reason, and no server is left behind."""

from pathlib import Path

import pytest

from rft.core.events import RunEnded
from rft.core.spec import RunSecrets, VllmSpec
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, write_run
from tests.e2e.trainer.stub_vllm import DIES, install_stub
from tests.shared.waiting import is_gone


@pytest.fixture
def ended(customer: Customer, base_model: Path, tmp_path: Path, request: pytest.FixtureRequest) -> RunEnded:
    """How a run ends with this kind of server."""
    python = install_stub(tmp_path, request.param) if request.param else tmp_path / "nothing"
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, engine="vllm", vllm=VllmSpec(python=str(python)), valid_rows=0
    )
    ended = run(run_dir, RunSecrets())
    log = run_dir / "vllm.log"
    pids = [int(line[4:]) for line in log.read_text().splitlines() if line.startswith("pid ")] if request.param else []
    assert len(pids) == (request.param == "another")
    assert all(map(is_gone, pids))
    assert not (run_dir / "served_adapters").exists()
    return ended


@pytest.mark.parametrize("ended", [""], indirect=True)
def test_a_host_without_vllm(ended: RunEnded) -> None:
    assert (ended.outcome, ended.error_code) == ("paused", "engine_missing")
    assert "rft engine install" in str(ended.error_message)


@pytest.mark.parametrize("ended", [DIES], indirect=True)
def test_a_server_that_does_not_start_is_told_with_the_end_of_its_log(ended: RunEnded) -> None:
    assert (ended.outcome, ended.error_code) == ("paused", "engine_unfit")
    assert "no memory for the cache" in str(ended.error_message)


@pytest.mark.parametrize("ended", ["another"], indirect=True)
def test_a_server_that_samples_from_other_weights(ended: RunEnded) -> None:
    assert (ended.outcome, ended.error_code) == ("paused", "engine_mismatch")
    assert "does not sample from the base model" in str(ended.error_message)
