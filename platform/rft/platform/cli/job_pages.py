"""Jobs, their events, checkpoints and endpoints, for people."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from rft.platform.cli.pages import Fitted, add, facts, figure, ident, names, state, table
from rft.platform.cli.views import Checkpoint, EndpointHealth, Event, Job, Model, Named
from rft.platform.cli.words import NOTHING, counted, date, duration, number, one_line, share

_LEVELS = {"warn": "yellow", "error": "red"}


def job_table(jobs: Sequence[Job]) -> Fitted:
    """One job a line."""
    grid = table(ident("job"), "state", figure("step"), "base model", "suffix", "created")
    for job in jobs:
        suffix = job.user_provided_suffix or NOTHING
        add(grid, job.id, state(job.state), job.progress, job.model, suffix, date(job.created_at))
    return Fitted(grid, spare=("suffix", "base model", "created"))


def job_page(job: Job) -> RenderableType:
    """All there is to say about a job."""
    resolved, usage, error, hold = job.resolved_hyperparameters, job.usage_metrics, job.error, job.hold
    reinforcement = None if job.method is None else job.method.reinforcement
    tools = () if reinforcement is None else reinforcement.tools or ()
    return facts(
        [
            ("job", job.id),
            ("state", state(job.state)),
            ("waits because", hold and f"{hold.reason} (step {hold.step}, since {date(hold.since)})"),
            ("paused because", job.pause_reason and Text(job.pause_reason.message, style="red")),
            ("waits for", job.wanted_slot),
            ("error", error and Text(_error_line(error.message, error.param, error.code), style="red")),
            ("base model", job.model),
            ("fine-tuned model", job.fine_tuned_model),
            ("step", None if job.total_steps is None else job.progress),
            ("best step", None if job.best_step is None else str(job.best_step)),
            ("created", date(job.created_at)),
            ("started", _at(job.started_at)),
            ("finished", _at(job.finished_at)),
            ("expected to finish", _at(job.estimated_finish)),
            ("training file", job.training_file),
            ("validation file", job.validation_file),
            ("result files", ", ".join(job.result_files) or None),
            ("tools", None if reinforcement is None else names([_name(tool) for tool in tools])),
            ("grader", reinforcement and _name(reinforcement.grader)),
            ("burst", resolved and _burst(resolved.batch_size, resolved.group_size, resolved.burst)),
            ("epochs", resolved and str(resolved.n_epochs)),
            ("seed", None if job.seed is None else str(job.seed)),
            ("metadata", ", ".join(f"{key}={value}" for key, value in (job.metadata or {}).items()) or None),
            ("used", usage and f"{duration(usage.training_seconds)}, {counted(usage.rollouts, 'rollout')}"),
            ("trained tokens", None if job.trained_tokens is None else f"{job.trained_tokens:,}"),
        ]
    )


def event_lines(events: Sequence[Event]) -> RenderableType:
    """Events as they happened: the newest at the bottom, as a log has it."""
    lines: list[Text] = []
    for event in sorted(reversed(events), key=lambda event: event.created_at):
        line = Text(f"{date(event.created_at)}  ", style="dim")
        lines.append(line.append(one_line(event.message, limit=2000), style=_LEVELS.get(event.level, "default")))
    return Group(*lines)


def checkpoint_table(checkpoints: Sequence[Checkpoint]) -> Fitted:
    """One checkpoint a line."""
    grid = table(
        figure("step"), ident("model"), figure("train reward"), figure("validation reward"), "created", ident("id")
    )
    for checkpoint in checkpoints:
        add(
            grid,
            str(checkpoint.step_number),
            checkpoint.fine_tuned_model_checkpoint,
            number(checkpoint.metric("train_mean_reward")),
            number(checkpoint.metric("full_valid_mean_reward")),
            date(checkpoint.created_at),
            checkpoint.id,
        )
    return Fitted(grid, spare=("id", "created", "train reward"))


def endpoint_table(endpoints: Sequence[EndpointHealth]) -> Fitted:
    """One endpoint a line."""
    figures = ("calls", "failed", "4xx", "p50", "p95", "queued p95")
    grid = table("endpoint", "steps", *map(figure, figures), "failures and 4xx")
    for health in endpoints:
        counts = {**health.errors_by_code, **health.client_errors_by_status}
        codes = ", ".join(f"{code} {counted.count}" for code, counted in counts.items())
        add(
            grid,
            f"{health.stage} {health.endpoint}",
            f"{health.from_step}-{health.to_step}",
            str(health.attempts),
            Text(share(health.error_share), style="red" if health.error_share > 0.05 else ""),
            Text(share(health.client_error_share), style="red" if health.client_error_share > 0.9 else ""),
            *(f"{value:.0f} ms" for value in (health.latency_p50_ms, health.latency_p95_ms, health.queued_p95_ms)),
            codes or NOTHING,
        )
    return Fitted(grid, spare=("queued p95", "p50", "steps"))


def model_table(models: Sequence[Model]) -> Fitted:
    """One model a line."""
    grid = table(ident("model"), "owner", "created", ident("job"))
    for model in models:
        created = date(model.created) if model.created else NOTHING
        add(grid, model.id, model.owned_by, created, model.fine_tuning_job_id or NOTHING)
    return Fitted(grid, spare=("created", "owner", "job"))


def model_page(model: Model) -> RenderableType:
    """One model."""
    created = date(model.created) if model.created else None
    head = [("model", model.id), ("owner", model.owned_by), ("created", created)]
    return facts([*head, ("job", model.fine_tuning_job_id)])


def _name(part: Named) -> str:
    return part.name or part.id or part.type or NOTHING


def _at(unix_s: int | None) -> str | None:
    return None if unix_s is None else date(unix_s)


def _burst(rows: int, group_size: int, burst: int) -> str:
    return f"{burst} rollouts at once ({rows} rows x {group_size})"


def _error_line(message: str, param: str | None, code: str | None) -> str:
    named = ", ".join(f"{name}: {value}" for name, value in (("code", code), ("param", param)) if value)
    return one_line(message, limit=2000) + (f" ({named})" if named else "")
