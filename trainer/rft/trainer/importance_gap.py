"""How far trainer and sampler are apart on the tokens of a step: told where it is much, not trained on beyond that."""

from dataclasses import dataclass

from rft.core.events import Notice
from rft.core.step_record import Optimization

ENGINE_MISMATCH = "engine_mismatch"
"""Why a run pauses whose engine samples from other weights."""
IMPORTANCE_GAP_TOLD = 0.05
"""Mean absolute difference of log-probabilities beyond which the customer is told."""


@dataclass(frozen=True, slots=True)
class SampledBy:
    """Whose log-probabilities the trainer's are held against."""

    engine: str
    policy_version: int
    """The newest one; it is the one that is updated."""

    def versions(self, staleness: int) -> str:
        """In a message: which versions sampled, where some are older by so many steps."""
        newest = self.policy_version
        return f"policy versions {newest - staleness} to {newest}" if staleness else f"policy version {newest}"


def gap_notice(update: Optimization, *, step: int) -> Notice | None:
    """That trainer and sampler disagree on how likely the sampled tokens were; None where they agree.

    None as well where older policies sampled, which are to differ.
    """
    gap = update.sampling_logp_difference
    if gap is None or gap <= IMPORTANCE_GAP_TOLD or update.staleness_max:
        return None
    return Notice(
        level="warn",
        code="importance_gap",
        message=f"{_disagreement(step, gap)}, more than {IMPORTANCE_GAP_TOLD}; {_truncated(update)}. The engine"
        " may compute in another precision, or serve other weights than the step's.",
        data={"step": step, "sampling_logp_difference": gap, "truncated_share": update.truncated_share},
    )


def judge_gap(update: Optimization, *, step: int, limit: float, sampled_by: SampledBy) -> Notice | None:
    """Before an update: why nothing may be trained on the step; None where its gap is within the limit."""
    gap, staleness = update.sampling_logp_difference, update.staleness_max or 0
    if gap is None or not gap > limit:  # Weights that are no numbers any more are `judge_update`'s affair.
        return None
    return Notice(
        level="error",
        code="importance_gap",
        message=f"{_disagreement(step, gap)} over {update.trained_tokens} tokens, more than max_importance_gap"
        f" ({limit:g}); {_truncated(update)}. The engine {sampled_by.engine} was to sample from"
        f" {sampled_by.versions(staleness)}. Nothing was trained on the step: see whether the engine serves these"
        f" weights, and in which precision{_or_less_stale(staleness)}. Then resume the job, with a larger"
        " max_importance_gap where the difference is to be borne.",
        data={
            "step": step,
            "sampling_logp_difference": gap,
            "truncated_share": update.truncated_share,
            "trained_tokens": update.trained_tokens,
            "max_importance_gap": limit,
            "engine": sampled_by.engine,
            "policy_version": sampled_by.policy_version,
            "staleness_max": staleness,
        },
    )


def _or_less_stale(staleness: int) -> str:
    return ", or order the next one with a smaller max_staleness or learning_rate_multiplier" if staleness else ""


def _disagreement(step: int, gap: float) -> str:
    return (
        f"Trainer and sampler disagree in step {step}: the log-probabilities of the sampled tokens differ by {gap:.3f}"
        " on average"
    )


def _truncated(update: Optimization) -> str:
    share = update.truncated_share or 0.0
    return f"{share:.1%} of the tokens are beyond the cap of the importance weights"
