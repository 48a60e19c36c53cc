"""Train events: the append-only log from the trainer to the platform, one JSON object per line of `events.jsonl`.

Each line is an `EventLine`; `seq` counts from 1 without gaps. The platform ingests each sequence number once.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rft.core.attempt import Attempt
from rft.core.base import JsonObject, Record
from rft.core.failed_call import FailedCall
from rft.core.failure import Failure, Stage
from rft.core.grade import Grade
from rft.core.messages import Message
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.core.step_record import CheckpointInfo, Optimization, RolloutStats, Timing
from rft.core.turns import TurnTimes

_WITH_BYTES = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
"""In JSON, bytes are base64 with the alphabet for URLs."""


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
    turn_versions: tuple[int, ...] | None = None
    """Which policy version sampled each turn; None: `policy_version` sampled them all."""
    turn_times: tuple[TurnTimes, ...] = ()
    """Of each turn, in order; nothing where they were not noted."""


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


class StillWaiting(Record):
    """The run lives, and has nothing to tell: it waits, or what it does takes long. Customers are not told."""

    type: Literal["still_waiting"] = "still_waiting"


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
    | StillWaiting
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
