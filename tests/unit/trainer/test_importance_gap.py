"""Trainer and sampler that differ: told from a twentieth on, and beyond the limit a reason not to train on the step."""

from math import inf, nan

import pytest

from rft.core.step_record import Optimization
from rft.trainer.importance_gap import SampledBy, gap_notice, judge_gap


def update(gap: float | None) -> Optimization:
    return Optimization(
        loss=0.0,
        grad_norm=None,
        entropy=1.0,
        learning_rate=None,
        trained_rollouts=4,
        trained_tokens=321,
        sampling_logp_difference=gap,
        truncated_share=None if gap is None else 0.25,
    )


def test_a_gap_is_told_from_a_twentieth_on() -> None:
    assert gap_notice(update(0.05), step=3) is None
    assert gap_notice(update(None), step=3) is None
    notice = gap_notice(update(0.051), step=3)
    assert notice is not None
    assert (notice.level, notice.code) == ("warn", "importance_gap")
    assert notice.data == {"step": 3, "sampling_logp_difference": 0.051, "truncated_share": 0.25}
    assert "25.0% of the tokens" in notice.message


@pytest.mark.parametrize("gap", [None, 0.0, 0.3, nan])
def test_up_to_its_limit_a_gap_is_trained_on(gap: float | None) -> None:
    assert judge_gap(update(gap), step=3, limit=0.3, sampled_by=SampledBy("vllm", 2)) is None


@pytest.mark.parametrize("gap", [0.301, inf])
def test_beyond_its_limit_a_gap_is_evidence_against_the_update(gap: float) -> None:
    evidence = judge_gap(update(gap), step=3, limit=0.3, sampled_by=SampledBy("vllm", 2))
    assert evidence is not None
    assert (evidence.level, evidence.code) == ("error", "importance_gap")
    assert evidence.data == {
        "step": 3,
        "sampling_logp_difference": gap,
        "truncated_share": 0.25,
        "trained_tokens": 321,
        "max_importance_gap": 0.3,
        "engine": "vllm",
        "staleness_max": 0,
        "policy_version": 2,
    }
    assert "over 321 tokens, more than max_importance_gap (0.3); 25.0% of the tokens" in evidence.message
