"""What a step came to: figures of its rollouts, its times, its update and its checkpoint. Part of the event log."""

from pydantic import Field

from rft.core.base import Record
from rft.core.estimates import RewardEstimate
from rft.core.grade import TokenUsage


class ToolStats(Record):
    """One tool over one split of one step. Means are over calls unless the name says otherwise; None over nothing."""

    name: str
    calls: int
    calls_per_rollout_mean: float | None
    """Over graded rollouts, like every mean per rollout."""
    output_tokens_mean: float | None
    execution_latency_mean_s: float | None
    errors_by_code: dict[str, int]
    """Model mistakes and endpoint failures by code."""
    client_errors_by_status: dict[str, int] = Field(default_factory=dict)
    """Calls that were answered with a 4xx, whoever's affair it was."""
    execution_latency_p50_s: float | None = None
    execution_latency_p95_s: float | None = None


class GraderStats(Record):
    """One grader, or one part of a multi grader, over one split of one step, failed rollouts included."""

    name: str
    is_part: bool = False
    gradings: int
    """Rollouts it was to judge."""
    latency_mean_s: float | None
    """Over those it gave a score."""
    errors_by_code: dict[str, int]
    """Those it gave none. A multi grader's own are its formula's; what its parts had is theirs."""
    model_errors: dict[str, int] = Field(default_factory=dict)
    usage: dict[str, TokenUsage] = Field(default_factory=dict)


class RolloutStats(Record):
    """One split of one step: what the rollouts did. Rewards are over graded rollouts only."""

    rollouts: int
    graded: int
    excluded: int
    """Rollouts that ended in a failure."""
    excluded_share: float
    failures_by_code: dict[str, int]
    replaced: int
    """Failed rollouts that were replaced."""
    resampled_rollouts: int = 0
    """Rollouts of further rows, in place of groups of equal rewards; among the others, and among the replaced ones."""
    reward_mean: float | None
    """Over rollouts; None when nothing was graded."""
    reward_std: float | None
    reward_mean_if_failures_were_zero: float | None
    grader_scores_mean: dict[str, float]
    groups: int
    zero_variance_groups: int
    too_small_groups: int
    """Groups with fewer than two graded rollouts."""
    completion_tokens_mean: float | None
    """Tokens the policy sampled, per rollout."""
    completion_tokens_total: int
    turns_mean: float | None
    tool_calls_mean: float | None
    stop_reasons: dict[str, int]
    rollout_latency_p50_s: float | None
    rollout_latency_p95_s: float | None
    grader_latency_mean_s: float | None
    tools: tuple[ToolStats, ...]
    judge_usage: dict[str, TokenUsage] = Field(default_factory=dict)
    """Tokens that judge models used, by model name, also where no grade came of it."""
    model_errors: dict[str, int] = Field(default_factory=dict)
    """Graded rollouts by what was wrong with the model's answer, e.g. `sample_parse_error`."""
    failures_by_stage: dict[str, int] = Field(default_factory=dict)
    graders: tuple[GraderStats, ...] = ()
    excluded_completion_tokens_mean: float | None = None
    """Of the rollouts that ended in a failure, up to where they were cut, to be held against the graded ones': where it
    is larger, what is trained on is shorter than what the policy does."""
    excluded_turns_mean: float | None = None
    excluded_tool_calls_mean: float | None = None
    reasoning_tokens_mean: float | None = None
    """Those of the sampled tokens that were thoughts, per rollout; None in records of earlier releases, too."""
    reasoning_tokens_total: int = 0
    reward_estimate: RewardEstimate | None = None
    """The mean reward by row, with its 95 % interval; None without an estimate, and in records of earlier releases."""

    @property
    def reward(self) -> float | None:
        """What is told of this split, and decides: the mean over rows, or over rollouts where rows have no estimate.

        Of a row that lost rollouts the graded ones count for all: else who loses hard rows' rollouts would gain.
        """
        return self.reward_mean if self.reward_estimate is None else self.reward_estimate.mean


class Timing(Record):
    """Where a step's wall time went, in seconds. Rollouts overlap, so their parts are scaled to sum to wall time."""

    sampling_s: float
    tools_s: float
    grading_s: float
    training_s: float
    eval_s: float
    full_step_s: float


class Optimization(Record):
    """The update itself; None where the step had no signal."""

    loss: float | None
    grad_norm: float | None
    entropy: float | None
    learning_rate: float | None
    trained_rollouts: int
    """Rollouts that carried gradient."""
    trained_tokens: int
    sampling_logp_difference: float | None
    """Mean absolute gap between trainer and sampler log-probabilities."""
    truncated_share: float | None = None
    """Of the sampled tokens: those whose importance weight, trainer over sampler, exceeds the cap."""
    clipped_share: float | None = None
    """Of the sampled tokens: those whose importance weight is outside the clip range."""
    kl: float | None = None
    """KL divergence from the base model, the mean over the sampled tokens; 0 where the loss does not have it."""
    staleness_mean: float | None = None
    """Steps by which the policies that sampled are behind the one that is updated, over the rollouts trained on."""
    staleness_max: int | None = None


class CheckpointInfo(Record):
    """The adapter saved at the end of a step."""

    path: str
    """Relative to the run directory."""
    kept_steps: tuple[int, ...]
    """Steps whose adapters are still on disk after pruning, best first."""
