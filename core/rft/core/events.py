"""Train events: the append-only log from the trainer to the platform, one JSON object per line of `events.jsonl`.

Each line is an `EventLine`; `seq` counts from 1 without gaps. The platform ingests each sequence number once.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rft.core.attempt import Attempt
from rft.core.base import JsonObject, Record
from rft.core.estimates import RewardEstimate
from rft.core.failed_call import FailedCall
from rft.core.failure import Failure, Stage
from rft.core.grade import Grade, TokenUsage
from rft.core.messages import Message
from rft.core.rollout import RolloutKey, Split, StopReason

_WITH_BYTES = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
"""In JSON, bytes are base64 with the alphabet for URLs."""


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
    """None when nothing was graded."""
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


class RunStarted(Record):
    """A trainer process took over the run directory."""

    type: Literal["run_started"] = "run_started"
    resumed_from_step: int | None
    """None on a fresh start. Everything recorded for later steps is void, but for `kept`."""
    total_steps: int
    pid: int
    kept: tuple[str, ...] = ()
    """Ids of rollouts that ended before and keep their places in steps that are done again; see `RolloutsVoided`."""


@dataclass(frozen=True, slots=True)
class RolloutBegan:
    """One conversation that begins. A dataclass and not a Record: hundreds begin at once."""

    key: RolloutKey
    trace_id: str
    policy_version: int


class RolloutsBegan(Record):
    """Conversations begin: from now on customers' servers may know their ids. Most end in a `RolloutDone`."""

    type: Literal["rollouts_began"] = "rollouts_began"
    rollouts: tuple[RolloutBegan, ...]


class RolloutDone(Record):
    """One rollout ended."""

    type: Literal["rollout_done"] = "rollout_done"
    key: RolloutKey
    trace_id: str
    policy_version: int
    outcome: Annotated[Grade | Failure, Field(union_mode="left_to_right")]
    stop_reason: StopReason | None
    messages: tuple[Message, ...]
    tool_calls: dict[str, int]
    """Calls by tool name."""
    tool_errors: dict[str, int]
    completion_tokens: int
    turns: int
    duration_s: float
    sampling_s: float
    tools_s: float
    grading_s: float
    reasoning_tokens: int = 0
    """Those of `completion_tokens` that were thoughts."""


class TokensSampled(Record):
    """The tokens of one conversation, as far as it came. Comes before its `RolloutDone`, where tokens are kept at all.

    What many conversations share is told once by each process, before it is referred to.
    """

    model_config = _WITH_BYTES

    type: Literal["tokens_sampled"] = "tokens_sampled"
    trace_id: str
    prompt: str
    """Names the prompt's tokens, see `core.token_record.prompt_name`."""
    completion: bytes
    """Everything after the prompt, see `core.token_record.pack_tokens`."""
    new_prompt: bytes | None = None
    """The prompt's tokens, packed alike; None: they were told."""
    new_pieces: dict[int, bytes] = Field(default_factory=dict)
    """What tokens stand for, by id, of those that were not told yet."""


class RatiosMeasured(Record):
    """How the trainer saw the sampled tokens of one rollout that a step trains on, told before the update."""

    model_config = _WITH_BYTES

    type: Literal["ratios_measured"] = "ratios_measured"
    trace_id: str
    advantage: float
    log_ratios: bytes
    """By sampled token its log-probability, the trainer's minus the sampler's: `core.token_record.pack_float16`."""


class RolloutsVoided(Record):
    """Rollouts that were kept when the run was taken over, and then found no place: they count no more."""

    type: Literal["rollouts_voided"] = "rollouts_voided"
    step: int
    trace_ids: tuple[str, ...]


class StepDone(Record):
    """One optimizer step is complete and its checkpoint is on disk. Step 0 is the baseline: evaluation only."""

    type: Literal["step_done"] = "step_done"
    step: int
    total_steps: int
    epoch: int
    train: RolloutStats | None
    """None for step 0."""
    valid: RolloutStats | None
    """None when the step was not evaluated."""
    timing: Timing
    optimization: Optimization | None
    checkpoint: CheckpointInfo


class PolicyMeasured(Record):
    """A policy was measured on rows that choose nothing. Comes after the rollouts it tells of (`Split.TEST`)."""

    type: Literal["policy_measured"] = "policy_measured"
    step: int
    """Whose checkpoint it is: 0, the untrained policy, or the best when the run is over."""
    stats: RolloutStats


class AttemptsMade(Record):
    """The failure ledger's next lines: attempts of calls to customer endpoints."""

    type: Literal["attempts_made"] = "attempts_made"
    step: int
    """The step they were made for."""
    attempts: tuple[Attempt, ...]


class CallsFailed(Record):
    """The last calls of endpoints that went wrong, with request and reply: a few of them, from time to time."""

    type: Literal["calls_failed"] = "calls_failed"
    calls: tuple[FailedCall, ...]


class RoundRedone(Record):
    """The platform lost too many rollouts of one split of a step: they are void, and all are rolled out anew.

    Comes after every event of those rollouts, and before any of those that take their place.
    """

    type: Literal["round_redone"] = "round_redone"
    step: int
    split: Split
    rollouts: int
    """What was to be rolled out."""
    lost: int
    """How many of these the platform could not finish."""
    failures_by_code: dict[str, int]
    """Of the lost ones."""
    message: str
    """The whole of it in words, with one of the failures."""


class HoldBegan(Record):
    """The run waits for an endpoint. Its process lives on, and finished rollouts are kept."""

    type: Literal["hold_began"] = "hold_began"
    step: int
    endpoint: str
    """In words, e.g. `tool 'search'`."""
    stage: Stage
    reason: str
    """One sentence a customer can act on."""


class HoldEnded(Record):
    """The endpoint answers again; the step goes on where it stood."""

    type: Literal["hold_ended"] = "hold_ended"
    step: int
    endpoint: str
    held_s: float


class Notice(Record):
    """Something the customer should read."""

    type: Literal["notice"] = "notice"
    level: Literal["info", "warn", "error"]
    message: str
    code: str | None = None
    data: JsonObject | None = None


class RunEnded(Record):
    """The run is over. After `stopped` and `paused` the job can be resumed; `paused` has an error that says why."""

    type: Literal["run_ended"] = "run_ended"
    outcome: Literal["succeeded", "failed", "stopped", "paused"]
    best_step: int | None
    error_code: str | None = None
    error_message: str | None = None
    error_param: str | None = None


TrainEvent = Annotated[
    RunStarted
    | RolloutsBegan
    | RolloutDone
    | RolloutsVoided
    | AttemptsMade
    | CallsFailed
    | TokensSampled
    | RatiosMeasured
    | StepDone
    | PolicyMeasured
    | RoundRedone
    | HoldBegan
    | HoldEnded
    | Notice
    | RunEnded,
    Field(discriminator="type"),
]


class EventLine(Record):
    """One line of the log."""

    model_config = _WITH_BYTES

    seq: int
    at: float
    """Unix time in seconds."""
    event: TrainEvent
