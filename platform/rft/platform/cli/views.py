"""What the command line reads of the API's objects. Open to fields it does not know: the platform may be newer."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class View(BaseModel):
    """The part of an object that is shown."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Problem(View):
    """Why something failed."""

    code: str | None = None
    message: str
    param: str | None = None


class Dataset(View):
    """What the validator found in a file."""

    rows: int
    problems: int
    first_problems: tuple[str, ...] = ()
    stopped_at_line: int | None = None
    duplicates: int = 0
    tools: tuple[str, ...] = ()
    longest_row_tokens: int | None = None


class File(View):
    """An uploaded or written file."""

    id: str
    bytes: int
    created_at: int
    expires_at: int | None = None
    filename: str
    purpose: str
    status: str
    status_details: str | None = None
    dataset: Dataset | None = None


class BadLine(View):
    """One bad line of a file."""

    line: int
    path: str
    reason: str


class Deleted(View):
    """Something is gone."""

    id: str


class Resolved(View):
    """What a run really uses."""

    n_epochs: int
    batch_size: int
    group_size: int
    steps: int
    burst: int
    eval_interval: int
    eval_samples: int


class Hold(View):
    """What a held job waits for."""

    endpoint: str
    reason: str
    since: int
    step: int


class PauseReason(View):
    """Why the platform paused a job."""

    code: str
    message: str


class SlotHolder(View):
    """A job that has a slot which another one waits for."""

    job: str
    hold: str | None = None


class Usage(View):
    """What a job used up."""

    training_seconds: float
    rollouts: int
    sampled_tokens: int
    tool_calls: dict[str, int] = Field(default_factory=dict)


class Named(View):
    """A tool or grader of an order."""

    name: str | None = None
    type: str | None = None
    id: str | None = None


class Reinforcement(View):
    """How the model learns."""

    grader: Named
    tools: tuple[Named, ...] | None = None


class Method(View):
    """The order's method."""

    reinforcement: Reinforcement | None = None


class Job(View):
    """A fine-tuning job."""

    id: str
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    estimated_finish: int | None = None
    model: str
    fine_tuned_model: str | None = None
    status: str
    training_file: str
    validation_file: str | None = None
    result_files: tuple[str, ...] = ()
    trained_tokens: int | None = None
    usage_metrics: Usage | None = None
    seed: int | None = None
    method: Method | None = None
    metadata: dict[str, str] | None = None
    error: Problem | None = None
    user_provided_suffix: str | None = None
    resolved_hyperparameters: Resolved | None = None
    current_step: int | None = None
    total_steps: int | None = None
    best_step: int | None = None
    is_cancel_requested: bool = False
    is_pause_requested: bool = False
    hold: Hold | None = None
    pause_reason: PauseReason | None = None
    waits_for: tuple[SlotHolder, ...] | None = None

    @property
    def wanted_slot(self) -> str | None:
        """What a queued job waits for, in words."""
        if not self.waits_for:
            return None
        taken = [one.job if one.hold is None else f"{one.job} (held: {one.hold})" for one in self.waits_for]
        return f"{'the slot' if len(taken) == 1 else 'one of the slots'} of {', '.join(taken)}"

    @property
    def state(self) -> str:
        """The status with what it hides: a move under way, or a hold."""
        if self.hold is not None:
            return f"held ({self.hold.endpoint})"
        if self.status == "running" and self.is_cancel_requested:
            return "running, being cancelled"
        if self.status == "running" and self.is_pause_requested:
            return "running, being paused"
        return self.status

    @property
    def progress(self) -> str:
        """Steps done of all."""
        return "-" if self.total_steps is None else f"{self.current_step or 0}/{self.total_steps}"


class Event(View):
    """One event of a job."""

    id: str
    created_at: int
    level: str
    message: str
    type: str


class Checkpoint(View):
    """A usable adapter."""

    id: str
    created_at: int
    fine_tuned_model_checkpoint: str
    step_number: int
    metrics: dict[str, JsonValue]

    def metric(self, name: str) -> float | None:
        """A number among the metrics."""
        value = self.metrics.get(name)
        return float(value) if isinstance(value, int | float) else None


class Permission(View):
    """A project that may use a checkpoint."""

    id: str
    created_at: int
    project_id: str


class SigningSecret(View):
    """What calls are signed with."""

    id: str
    created_at: int
    retired_at: int | None = None
    status: str
    secret: str | None = None
    """Told once, when it is made."""


class SignInLink(View):
    """An address that signs one browser in to the dashboard."""

    url: str
    expires_at: int


class EndpointHealth(View):
    """One endpoint over a window of steps."""

    stage: str
    endpoint: str
    from_step: int
    to_step: int
    attempts: int
    error_share: float
    errors_by_code: dict[str, "Counted"] = Field(default_factory=dict)
    client_error_share: float = 0.0
    client_errors_by_status: dict[str, "Counted"] = Field(default_factory=dict)
    latency_p50_ms: float
    latency_p95_ms: float
    queued_p95_ms: float


class Counted(View):
    """How often."""

    count: int


class Model(View):
    """A model by its name."""

    id: str
    created: int
    owned_by: str
    fine_tuning_job_id: str | None = None
