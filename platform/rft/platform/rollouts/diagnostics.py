"""What a step's record tells of how training goes, beyond what the job's curves show."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from rft.core.events import StepDone
from rft.core.pacing import EndpointCalls
from rft.core.step_record import Optimization, RolloutStats
from rft.platform.rollouts.pace import PaceObject, pace_of


class ToolDiagnostics(BaseModel):
    """One tool over the training rollouts of a step."""

    name: str
    latency_mean_s: float | None
    latency_p50_s: float | None = None
    """Null, like the other, for jobs of releases that did not measure it."""
    latency_p95_s: float | None = None
    output_tokens_mean: float | None


class DiagnosticPoint(BaseModel):
    """One step; all but `optimization` is null where nothing was rolled out to train on."""

    step: int
    groups: int | None = None
    zero_variance_groups: int | None = None
    """Those whose rollouts all earned the same: there is nothing to learn from them."""
    stop_reasons: dict[str, int] | None = None
    """Rollouts by what ended them."""
    rollout_latency_p50_s: float | None = None
    rollout_latency_p95_s: float | None = None
    grader_latency_mean_s: float | None = None
    sampled_tokens_per_s: float | None = None
    """Of the training rollouts, over the time in which they were rolled out."""
    tools: list[ToolDiagnostics] = []
    optimization: Optimization | None = None
    """Null where the step had no signal."""


class DiagnosticsObject(BaseModel):
    """A job's diagnostics at the steps that its curves show."""

    object: Literal["fine_tuning.job.diagnostics"] = "fine_tuning.job.diagnostics"
    data: list[DiagnosticPoint]
    """Oldest first."""
    pace: PaceObject | None
    """As the last of them show it; null before the first update."""


def diagnostics_of(
    records: Sequence[StepDone],
    max_staleness: int = 0,
    calls: Sequence[EndpointCalls] = (),
    *,
    is_shared: bool = True,
) -> DiagnosticsObject:
    """From the records of the steps. Pure. `calls`: of a step, to each endpoint; `is_shared`: samples and updates are
    computed by the same processors."""
    pace = pace_of(records, max_staleness, calls, is_shared=is_shared)
    return DiagnosticsObject(data=[_point(record) for record in records], pace=pace)


def _point(record: StepDone) -> DiagnosticPoint:
    train = record.train
    if train is None:
        return DiagnosticPoint(step=record.step, optimization=record.optimization)
    return DiagnosticPoint(
        step=record.step,
        groups=train.groups,
        zero_variance_groups=train.zero_variance_groups,
        stop_reasons=train.stop_reasons,
        rollout_latency_p50_s=train.rollout_latency_p50_s,
        rollout_latency_p95_s=train.rollout_latency_p95_s,
        grader_latency_mean_s=train.grader_latency_mean_s,
        sampled_tokens_per_s=_tokens_per_s(train, record),
        tools=[
            ToolDiagnostics(
                name=tool.name,
                latency_mean_s=tool.execution_latency_mean_s,
                latency_p50_s=tool.execution_latency_p50_s,
                latency_p95_s=tool.execution_latency_p95_s,
                output_tokens_mean=tool.output_tokens_mean,
            )
            for tool in train.tools
        ],
        optimization=record.optimization,
    )


def _tokens_per_s(train: RolloutStats, record: StepDone) -> float | None:
    timing, update = record.timing, record.optimization
    rolling_out_s = timing.sampling_s + timing.tools_s + timing.grading_s
    if update is not None and update.staleness_max:  # Then rollouts went on all the time, for one step or another.
        rolling_out_s = timing.full_step_s
    return train.completion_tokens_total / rolling_out_s if rolling_out_s > 0 else None
