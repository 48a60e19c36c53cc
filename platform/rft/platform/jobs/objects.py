"""Fine-tuning jobs and their events on the wire: what a customer is shown."""

import time
from datetime import datetime
from math import ceil
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from rft.core.failure import Stage
from rft.core.hyperparameters import PolicyPin, ResolvedHyperparameters
from rft.core.job import JobStatus
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.update_spec import Schedule
from rft.platform.api.pagination import Listed
from rft.platform.jobs.repository import JobRow
from rft.platform.lifecycle.records import BaselineFigures, FinalFigures, JobHold, PauseReason, SlotHolder
from rft.platform.lifecycle.usage import UsageMetrics
from rft.platform.orders.schemas import JobCreate
from rft.platform.settings import Settings
from rft.platform.store.stored_json import StoredJson


class JobErrorObject(BaseModel):
    """Why a job failed."""

    code: str
    message: str
    param: str | None


class LoraObject(BaseModel):
    """Ours: the adapter that is trained."""

    rank: int
    alpha: int
    learning_rate: float
    """What learning_rate_multiplier 1 means."""
    target_modules: list[str] | Literal["all-linear"] | None
    """null: those that suit the model."""


class ResolvedObject(BaseModel):
    """Ours: what the run really uses, once the rows are counted."""

    n_epochs: int
    batch_size: int
    learning_rate_multiplier: float
    compute_multiplier: float
    eval_interval: int
    eval_samples: int
    group_size: int
    """Rollouts per row and step."""
    steps: int
    burst: int
    """Training rollouts that may be under way at once: what the customer's endpoints must bear."""
    max_staleness: int
    """Steps whose rollouts are under way beside the one that is trained."""
    policy_pin: PolicyPin
    """For how long a rollout keeps to the policy version that it samples from."""
    temperature: float
    beta: float
    epsilon: float | None
    epsilon_high: float | None
    warmup_steps: int
    lr_scheduler_type: Schedule
    resample_zero_variance: int
    """Rounds of further rows in a step at most."""
    max_context_tokens: int | None
    """null where the model's files were not there to look at."""
    lora: LoraObject | None
    """null in jobs of earlier releases."""


class HoldObject(BaseModel):
    """Ours: what a job that is `paused` by the platform waits for. It goes on by itself."""

    endpoint: str
    """In words, e.g. `tool 'search'`."""
    stage: Stage
    reason: str
    since: int
    """Unix time in seconds."""
    step: int


class PauseReasonObject(BaseModel):
    """Ours: why the platform paused the job. It goes on once it is resumed."""

    code: str
    """`platform_failure`: the platform could not finish too many rollouts of a step, twice in a row. `importance_gap`:
    trainer and sampler differed too much for an update. Others are documented."""
    message: str
    since: int
    """Unix time in seconds."""
    step: int | None
    """The last step that is done; null when there is none."""


class ProgressObject(BaseModel):
    """Ours: what a running job is doing now, looked at about once a second."""

    activity: Activity
    message: str
    """In one line, for people."""
    since: int
    """Unix time in seconds when this activity, or this round of rollouts, began."""
    round: RoundProgress | None
    """While it rolls out: where the rollouts are."""


class SlotHolderObject(BaseModel):
    """Ours: a job that has a slot which a queued job waits for."""

    job: str
    hold: str | None
    """The endpoint that this job waits for itself, in words; None while it trains."""


class JobObject(Listed):
    """A job as the contract shows it; unknown fields of the order are echoed beside these."""

    model_config = ConfigDict(extra="allow")

    object: Literal["fine_tuning.job"] = "fine_tuning.job"
    created_at: int
    started_at: int | None
    finished_at: int | None
    estimated_finish: int | None
    """While it runs and a step is done: if it goes on as in its last steps. Never in the past."""
    model: str
    fine_tuned_model: str | None
    organization_id: str
    status: JobStatus
    training_file: str
    validation_file: str | None
    test_file: str | None
    """Ours: rows that choose nothing."""
    final_figures: FinalFigures | None
    """Ours: what the best checkpoint earns where nothing was chosen, against the untrained policy."""
    baselines: list[BaselineFigures] | None
    """Ours: what other models earn on the validation rows, as far as they were measured; null without any."""
    result_files: list[str]
    trained_tokens: int | None
    usage_metrics: UsageMetrics | None
    """Once the job is over."""
    seed: int
    method: StoredJson
    """As ordered, header values redacted, hyperparameters filled with `auto`."""
    metadata: dict[str, str] | None
    integrations: list[JsonValue] | None
    error: JobErrorObject | None
    user_provided_suffix: str | None
    eval_id: str | None = None
    """Always null: validation is a part of the job, not an eval beside it."""
    shared_with_openai: bool = False
    """Always false: data stay here."""
    resolved_hyperparameters: ResolvedObject | None
    max_importance_gap: float
    """Ours: mean difference of trainer and sampler log-probabilities beyond which it is paused before an update."""
    current_step: int | None
    total_steps: int | None
    best_step: int | None
    is_cancel_requested: bool
    is_pause_requested: bool
    """Its trainer is being stopped; the job is `paused` once it has."""
    hold: HoldObject | None
    """None for a job that is `paused` and does not go on by itself."""
    pause_reason: PauseReasonObject | None
    """Set for a job that is `paused` because the platform failed it; nothing goes on before it is resumed."""
    progress: ProgressObject | None
    """Ours: what it is doing now, while it runs."""
    waits_for: list[SlotHolderObject] | None
    """Whose slot a `queued` job waits for; None when no other job is in its way."""


class JobDeleted(BaseModel):
    """It is gone, with all that was of it."""

    id: str
    object: Literal["fine_tuning.job"] = "fine_tuning.job"
    deleted: Literal[True] = True


class EventObject(Listed):
    """One event of a job."""

    object: Literal["fine_tuning.job.event"] = "fine_tuning.job.event"
    created_at: int
    level: Literal["info", "warn", "error"]
    message: str
    data: StoredJson | None
    type: Literal["message", "metrics"]


_KNOWN = frozenset(JobObject.model_fields) | frozenset(JobCreate.model_fields)


def to_job_object(job: JobRow, settings: Settings) -> JobObject:
    """The row as the contract shows it."""
    integrations = job.request.get("integrations")
    finish_s = job.estimated_finish(time.time())
    known = JobObject(
        id=job.id,
        created_at=int(job.created_at.timestamp()),
        started_at=_unix(job.started_at),
        finished_at=_unix(job.finished_at),
        estimated_finish=None if finish_s is None else ceil(finish_s),
        model=job.model,
        fine_tuned_model=job.fine_tuned_model,
        organization_id=settings.organization,
        status=job.status,
        training_file=job.training_file,
        validation_file=job.validation_file,
        test_file=job.test_file,
        final_figures=job.final_figures,
        baselines=None if job.baselines is None else [*job.baselines],
        result_files=list(job.result_files),
        trained_tokens=job.trained_tokens,
        usage_metrics=job.usage_metrics,
        seed=job.seed,
        method=job.method,
        metadata=job.metadata,
        integrations=integrations if isinstance(integrations, list) else None,
        error=None if job.error is None else JobErrorObject.model_validate(job.error.model_dump()),
        user_provided_suffix=job.suffix,
        resolved_hyperparameters=None if job.resolved is None else to_resolved_object(job.resolved),
        max_importance_gap=job.max_importance_gap or _ordered_gap(job, settings),
        current_step=job.current_step,
        total_steps=job.total_steps,
        best_step=job.best_step,
        is_cancel_requested=job.is_cancel_requested,
        is_pause_requested=job.is_pause_requested,
        hold=None if job.hold is None else to_hold_object(job.hold),
        pause_reason=None if job.pause_reason is None else to_pause_reason_object(job.pause_reason),
        progress=None if job.progress is None else to_progress_object(job.progress),
        waits_for=None if job.waits_for is None else [to_slot_holder_object(holder) for holder in job.waits_for],
    )
    echoed = {key: value for key, value in job.request.items() if key not in _KNOWN}
    return known.model_copy(update=echoed) if echoed else known


def _ordered_gap(job: JobRow, settings: Settings) -> float:
    """Read from the order as it is stored: whole pages of jobs are shown at a time."""
    ordered = job.method.get("reinforcement")
    limit = ordered.get("max_importance_gap") if isinstance(ordered, dict) else None
    return limit if isinstance(limit, float | int) else settings.max_importance_gap


def to_resolved_object(resolved: ResolvedHyperparameters) -> ResolvedObject:
    """With the burst spelled out."""
    return ResolvedObject(**resolved.model_dump(), burst=resolved.burst)


def to_hold_object(hold: JobHold) -> HoldObject:
    """With its time in whole seconds, as the wire has it."""
    return HoldObject.model_validate(hold.model_dump() | {"since": int(hold.since)})


def to_pause_reason_object(reason: PauseReason) -> PauseReasonObject:
    """With its time in whole seconds, as the wire has it."""
    return PauseReasonObject.model_validate(reason.model_dump() | {"since": int(reason.since)})


def to_progress_object(progress: RunProgress) -> ProgressObject:
    """The look on the wire."""
    return ProgressObject(
        activity=progress.activity, message=progress.message, since=int(progress.since), round=progress.round
    )


def to_slot_holder_object(holder: SlotHolder) -> SlotHolderObject:
    """The endpoint and since when it is waited for."""
    return SlotHolderObject(job=holder.job, hold=holder.hold)


def _unix(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp())
