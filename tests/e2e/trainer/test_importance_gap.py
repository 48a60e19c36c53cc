"""A sampler that is too far from the trainer: the run pauses before the update, and goes on with another limit."""

from pathlib import Path

import pytest

from rft.core.errors import RunPaused
from rft.core.events import Notice, RunEnded, RunStarted, StepDone
from rft.core.spec import RunSecrets
from rft.run_directory import layout
from rft.run_directory.files import read_spec, write_spec
from rft.trainer.engine_probe import EngineProbe
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, events, write_run


def test_the_run_pauses_with_the_evidence_and_goes_on_at_the_same_step(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    """The sampler is a fake: its log-probabilities are made up, from -1 to 0."""
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=2, max_importance_gap=0.2)
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code, ended.best_step) == ("paused", "importance_gap", 0)
    told = [line.event for line in events(run_dir)]
    assert [event.step for event in told if isinstance(event, StepDone)] == [0]
    assert not (run_dir / layout.checkpoint_dir(1)).exists()
    [evidence] = [event for event in told if isinstance(event, Notice) and event.code == "importance_gap"]
    assert (evidence.level, evidence.message) == ("error", ended.error_message)
    assert evidence.data is not None
    gap = evidence.data["sampling_logp_difference"]
    assert isinstance(gap, float)
    assert gap > 1
    engine = "rft.testing.samplers:fake_engine"
    assert (evidence.data["step"], evidence.data["policy_version"], evidence.data["engine"]) == (1, 0, engine)
    write_spec(run_dir, read_spec(run_dir).model_copy(update={"max_importance_gap": 100.0}))
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    done = [line.event for line in events(run_dir)]
    assert [event.outcome for event in done if isinstance(event, RunEnded)] == ["paused", "succeeded"]
    first = next(event for event in done if isinstance(event, StepDone) and event.step == 1)
    assert first.optimization is not None
    assert first.optimization.sampling_logp_difference == gap, "the same rollouts, and the same weights"
    assert [event.kept for event in done if isinstance(event, RunStarted)] == [(), ()], "a mended engine samples anew"


@pytest.mark.parametrize(("code", "is_kept"), [("engine_mismatch", False), ("engine_unreachable", True)])
def test_what_an_engine_sampled_that_is_found_at_fault_is_not_kept(
    customer: Customer, base_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, is_kept: bool
) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=2)

    def published(probe: EngineProbe, version: int) -> None:
        del probe
        if version == 1:
            raise RunPaused(code, "the server was looked at")

    with monkeypatch.context() as patched:
        patched.setattr(EngineProbe, "published", published)
        ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code) == ("paused", code)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    [_, again] = [e for e in (line.event for line in events(run_dir)) if isinstance(e, RunStarted)]
    assert bool(again.kept) is is_kept


def test_sampler_and_trainer_agree_at_another_temperature(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url,
        steps=1, engine="transformers", temperature=0.6, valid_rows=0, max_tokens=16,
    )  # fmt: skip
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    [done] = [e.optimization for e in (line.event for line in events(run_dir)) if isinstance(e, StepDone) and e.step]
    assert done is not None
    assert done.sampling_logp_difference is not None
    assert done.sampling_logp_difference < 1e-4
