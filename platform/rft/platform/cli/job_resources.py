"""How jobs, their checkpoints, endpoints and steps are shown: their fields, as data."""

from collections.abc import Callable

from rft.platform.cli.answers import Answer, Resource, Shown, Styled, state, styled
from rft.platform.cli.formats import NOTHING, number, share


def job_state(job: Answer) -> str:
    """A job's status with what it hides: a move under way, or a hold."""
    held, status = job.get("hold.endpoint", str), job.need("status", str)
    if held is not None:
        return f"held ({held})"
    for move, done in (("is_cancel_requested", "cancelled"), ("is_pause_requested", "paused")):
        if status == "running" and job.get(move, bool):
            return f"running, being {done}"
    return status


def job_progress(job: Answer) -> str | None:
    """Steps done of all."""
    total = job.get("total_steps", int)
    return None if total is None else f"{job.get('current_step', int) or 0}/{total}"


def wanted_slot(job: Answer) -> str | None:
    """What a queued job waits for."""
    taken = [
        one.need("job", str) + ("" if (hold := one.get("hold", str)) is None else f" (held: {hold})")
        for one in job.parts("waits_for")
    ]
    return f"{'the slot' if len(taken) == 1 else 'one of the slots'} of {', '.join(taken)}" if taken else None


def _error(job: Answer) -> Styled | None:
    error = job.part("error")
    if error is None:
        return None
    named = ", ".join(f"{name}: {value}" for name in ("code", "param") if (value := error.get(name, str)))
    return styled(error.need("message", str) + (f" ({named})" if named else ""), "red")


def _name(part: Answer) -> str:
    return next((name for key in ("name", "id", "type") if (name := part.get(key, str))), NOTHING)


def _estimate(it: Answer, path: str) -> str | None:
    """A mean with its interval."""
    mean, low, high = (it.get(f"{path}.{name}", float) for name in ("mean", "low", "high"))
    return None if mean is None else f"{number(mean)} [{number(low)}, {number(high)}]"


def _final_reward(job: Answer) -> str | None:
    """On the rows that choose nothing."""
    figure, is_test = _estimate(job, "final_figures.reward"), job.get("final_figures.rows", str) == "test"
    return figure and f"{figure} on {'test rows' if is_test else 'validation rows, fresh seeds'}"


def _baseline(it: Answer) -> str:
    figure = _estimate(it, "reward") or it.get("error", str) or "no estimate"
    left_out = it.need("rollouts", int) - it.need("graded", int)
    return f"{it.need('model', str)} {figure}" + (f" ({left_out} left out)" if left_out else "")


_ORDER = "method.reinforcement"
JOB = Resource(
    fields="job=id; state; now=progress.message; waits because={hold.reason} (step {hold.step}, since {hold.since});"
    " !paused because=pause_reason.message; waits for; error; base model=model; fine-tuned model=fine_tuned_model;"
    " step; best step; final reward; untrained; better by={final_figures.gain.difference} (row by row, over"
    " {final_figures.gain.rows:row}: {final_figures.gain.better} better, {final_figures.gain.worse} worse);"
    " baselines;"
    " created=created_at; started=started_at; finished=finished_at;"
    " expected to finish=estimated_finish; training file; validation file; test file; result files; tools; grader;"
    " burst={resolved_hyperparameters.burst} rollouts at once"
    " ({resolved_hyperparameters.batch_size} rows x {resolved_hyperparameters.group_size});"
    " epochs=resolved_hyperparameters.n_epochs; seed; metadata;"
    " used={usage_metrics.training_seconds}, {usage_metrics.rollouts:rollout}; trained tokens",
    none="no jobs",
    columns="job; state; >step; base model; suffix=user_provided_suffix; created",
    spare="suffix; base model; created",
    special={
        "state": lambda job: state(job_state(job)),
        "waits for": wanted_slot,
        "final reward": _final_reward,
        "untrained": lambda job: _estimate(job, "final_figures.untrained"),
        "error": _error,
        "baselines": lambda job: "; ".join(map(_baseline, job.parts("baselines"))) or None,
        "step": job_progress,
        "tools": lambda job: (it := job.part(_ORDER)) and (", ".join(map(_name, it.parts("tools"))) or "none"),
        "grader": lambda job: (it := job.part(f"{_ORDER}.grader")) and _name(it),
    },
)
CHECKPOINT = Resource(
    fields=">step=step_number; model=fine_tuned_model_checkpoint; >train reward=metrics.train_mean_reward;"
    " >validation reward=metrics.full_valid_mean_reward; created=created_at; id",
    none="no checkpoints",
    spare="id; created; train reward",
)


def _loud(path: str, above: float, nothing: float | None = 0.0) -> Callable[[Answer], Shown]:
    """A share that is red above a bound."""

    def show(it: Answer) -> Shown:
        value = it.get(path, float)
        value = nothing if value is None else value
        return None if value is None else styled(share(value), "red" if value > above else "")

    return show


def _failures(endpoint: Answer) -> str | None:
    by_code = endpoint.children("errors_by_code") | endpoint.children("client_errors_by_status")
    return ", ".join(f"{code} {one.need('count', int)}" for code, one in by_code.items()) or None


ENDPOINT = Resource(
    fields="endpoint={stage} {endpoint}; steps={from_step}-{to_step}; >calls=attempts; >failed; >4xx;"
    " >p50=latency_p50_ms; >p95=latency_p95_ms; >queued p95=queued_p95_ms; failures and 4xx",
    none="no calls yet",
    spare="queued p95; p50; steps",
    special={
        "failed": _loud("error_share", 0.05),
        "4xx": _loud("client_error_share", 0.9),
        "failures and 4xx": _failures,
    },
)


def reward_of(step: Answer, split: str) -> float | None:
    """A split's mean reward: over rows, or over rollouts where its record has no estimate."""
    by_row = step.get(f"record.{split}.reward_estimate.mean", float)
    return step.get(f"record.{split}.reward_mean", float) if by_row is None else by_row


def _reward(split: str) -> Callable[[Answer], Shown]:
    return lambda step: number(reward_of(step, split))


STEP = Resource(
    fields=">step; >train reward; >validation reward;"
    " >rollouts=record.train.rollouts; >left out; >tool calls={record.train.tool_calls_mean:.1f};"
    " >tokens={record.train.completion_tokens_mean:.0f}; >took=record.timing.full_step_s",
    none="no steps",
    spare="tokens; rollouts; took; tool calls; left out",
    special={
        "train reward": _reward("train"),
        "validation reward": _reward("valid"),
        "left out": _loud("record.train.excluded_share", 0.0, None),
    },
)
