"""What the command line reads of rollouts, steps and regrades."""

from pydantic import Field

from rft.platform.cli.views import Problem, View


class Rollout(View):
    """One rollout without its messages."""

    id: str
    split: str
    step: int
    row_index: int
    group_index: int
    attempt: int = 0
    policy_version: int
    reward: float | None
    failure_code: str | None = None
    failure_stage: str | None = None
    stop_reason: str | None = None
    tool_calls: int
    completion_tokens: int
    duration_s: float
    created_at: int


class Call(View):
    """One tool call as the model wrote it."""

    call_id: str
    name: str
    arguments: str


class Message(View):
    """One message of the conversation."""

    role: str
    content: str
    tool_calls: tuple[Call, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


class Outcome(View):
    """A grade, or the failure that took its place."""

    reward: float | None = None
    scores: dict[str, float] = Field(default_factory=dict)
    code: str | None = None
    stage: str | None = None
    message: str | None = None


class RolloutRecord(View):
    """What the trainer reported."""

    outcome: Outcome
    messages: tuple[Message, ...]
    turns: int


class WholeRollout(Rollout):
    """One rollout with its conversation."""

    status: str = "ended"
    superseded_by: str | None = None
    record: RolloutRecord | None


class Attempt(View):
    """One try of one call to an endpoint."""

    at: float
    stage: str
    endpoint: str
    call_id: str
    attempt: int
    code: str | None = None
    status: int | None = None
    latency_ms: float
    queued_ms: float


class Figures(View):
    """What of one split of one step is drawn."""

    rollouts: int
    excluded: int
    failures_by_code: dict[str, int] = Field(default_factory=dict)
    reward_mean: float | None = None
    tool_calls_mean: float | None = None
    completion_tokens_mean: float | None = None


class Split(Figures):
    """One split of one step."""

    excluded_share: float


class Timing(View):
    """Where a step's time went."""

    full_step_s: float


class StepRecord(View):
    """What the trainer reported of a step."""

    total_steps: int
    train: Split | None = None
    valid: Split | None = None
    timing: Timing | None = None


class Step(View):
    """One step of a job."""

    step: int
    record: StepRecord


class CurveRecord(View):
    """What of a step is drawn."""

    train: Figures | None = None
    valid: Figures | None = None


class CurvePoint(View):
    """One step of a curve."""

    step: int
    record: CurveRecord


class Curves(View):
    """A job's course: its sums over all steps, its points over the most telling of them."""

    steps: int
    rollouts: int
    excluded: int
    data: tuple[CurvePoint, ...]


class JudgeTokens(View):
    """What a judge model read and wrote."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class RegradeReport(View):
    """What another grader changes."""

    n: int
    failures: int
    failures_by_code: dict[str, int] = Field(default_factory=dict)
    reward_mean_before: float | None
    reward_mean_after: float | None
    groups: int
    groups_ranked: int
    rank_correlation: float | None
    best_changed_share: float | None
    signal_share_before: float | None
    signal_share_after: float | None
    judge_usage: dict[str, JudgeTokens] = Field(default_factory=dict)


class Regrade(View):
    """Another grader over a job's stored rollouts."""

    id: str
    created_at: int
    fine_tuning_job_id: str
    status: str
    total: int | None = None
    done: int = 0
    report: RegradeReport | None = None
    error: Problem | None = None
