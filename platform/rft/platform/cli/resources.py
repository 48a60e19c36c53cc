"""How objects of the API are shown: their fields, as data."""

from collections.abc import Callable

from rft.platform.cli.answers import Answer, Resource, Shown, Styled, state, styled
from rft.platform.cli.formats import NOTHING, clock, counted, number, share

MODEL = Resource(
    fields="model=id; owner=owned_by; created; job=fine_tuning_job_id; base=trained_from; step=step_number;"
    " validation=valid_reward",
    none="no models",
    spare="base; created; owner; job; step",
)
SERVED_TOKENS = Resource(
    fields="day; model; key={api_key_name} {api_key_id}; >requests; >in=prompt_tokens; >as sampled=remembered_tokens;"
    " >out=completion_tokens; >rendered again=rendered_again",
    none="nothing was asked",
    spare="rendered again; as sampled; key",
)
BAD_LINE = Resource(fields=">line; where=path; problem=reason", none="no problems", spare="where")
PERMISSION = Resource(
    fields="permission=id; project=project_id; created=created_at", none="no permissions", spare="created"
)
SIGNING_SECRET = Resource(
    fields="secret=id; state=status; created=created_at; retired=retired_at",
    none="no signing secrets",
    spare="retired; created",
)


def _file_state(file: Answer) -> Styled:
    problems = file.get("dataset.problems", int)
    return styled(f"unusable: {counted(problems, 'problem')}", "red") if problems else state(file.need("status", str))


def _dataset(file: Answer) -> dict[str, Shown]:
    dataset = file.part("dataset")
    if dataset is None:
        return {}
    repeated, line = dataset.get("duplicates", int), dataset.get("stopped_at_line", int)
    pieces = [piece for text in dataset.listed("first_problems", str) for piece in (("\n", ""), (text, "red"))]
    before = counted(dataset.get("problems", int) or 0, "problem")
    return {
        "tools described": ", ".join(dataset.listed("tools", str)) or "none",
        "repeated rows": f"{repeated:,}" if repeated else None,
        "problems": tuple(pieces[1:]) or None,
        "not read": None if line is None else f"from line {line:,} on, for {before} before it",
    }


FILE = Resource(
    fields="file=id; name=filename; purpose; size=bytes; state; created=created_at; expires=expires_at;"
    " rows=dataset.rows",
    none="no files",
    columns="file; name; purpose; >size; >rows; state; created",
    spare="purpose; rows; created; size",
    special={"state": _file_state},
    more=_dataset,
)


def rehearsal_state(rehearsal: Answer) -> str:
    """A rehearsal's status with what it hides."""
    status = rehearsal.need("status", str)
    is_stopping = status in ("queued", "running") and rehearsal.get("is_cancel_requested", bool)
    return f"{status}, being cancelled" if is_stopping else status


REHEARSAL = Resource(
    fields="rehearsal=id; state; error=error.message; dataset=training_file;"
    " rollouts={plan.rollouts} of the step's burst of {plan.burst}; created=created_at; started=started_at;"
    " finished=finished_at",
    none="no rehearsals",
    columns="rehearsal; state; >played=plan.rollouts; >burst=plan.burst; >excluded=report.excluded_share; created",
    spare="burst; created; played",
    special={"state": lambda it: state(rehearsal_state(it))},
)


def _health(it: Answer) -> Styled:
    failed, refused = it.get("health.error_share", float), it.get("health.client_error_share", float)
    of = "" if failed is None else f", {share(failed)} of {it.get('health.attempts', int) or 0} calls failed"
    of += f", {share(refused)} were answered 4xx" if refused else ""
    return (*state(it.need("health.status", str)), (of, "default"))


def _header_names(it: Answer) -> str | None:
    return ", ".join(it.named("headers", str)) or None


_HEALTH = "health; last called=health.last_seen; last failure=health.last_failure"
TOOL = Resource(
    fields="tool=id; name; URL=server_url; headers; description; timeout=timeout_s;"
    " calls at once={max_concurrency} at most; calls per second={rate_limit:g} at most; retry;"
    f" callbacks=callback_url; created=created_at; {_HEALTH}",
    none="no registered tools",
    columns="tool; name; URL; health=health.status; >failed=health.error_share",
    spare="URL; failed",
    special={"headers": _header_names, "health": _health},
)
GRADER = Resource(
    fields=f"grader=id; name; type; created=created_at; {_HEALTH}",
    none="no registered graders",
    columns="grader; name; type; health=health.status; >failed=health.error_share",
    spare="failed; type",
    special={"health": _health},
)
PROVIDER = Resource(
    fields="provider=id; name; URL=base_url; key=api_key; headers; timeout=timeout_s;"
    " requests at once={max_concurrency} at most; requests per minute={requests_per_minute:g} at most;"
    " not sent=omit_fields; prompt tokens={price_per_million.prompt:g} a million;"
    " completion tokens={price_per_million.completion:g} a million; models; created=created_at",
    none="no registered providers",
    columns="provider; name; URL; created",
    spare="created; URL",
    special={"headers": _header_names},
)


def _works(tried: Answer) -> Styled:
    return styled("works", "green") if tried.need("is_ok", bool) else styled("does not work", "red")


def _scores(it: Answer, *paths: str) -> dict[str, Shown]:
    found = {f"  {name}": number(score) for path in paths for name, score in it.named(path, float).items()}
    return {"reward": number(it.get("reward", float)), **found}


_FAILURE = "!failure={failure.code}: {failure.message}"
_TRIES = Resource(
    fields=">try=attempt; >status={status}; result; >took=latency_ms",
    special={"result": lambda attempt: attempt.get("code", str) or "ok"},
)
TRIED_TOOL = Resource(
    fields=f"result; {_FAILURE}; took=latency_s; the model is told of=a mistake ({{error_code}})",
    special={"result": _works},
    below=("attempts", _TRIES),
    output="output",
)
TRIED_GRADER = Resource(
    fields=f"result; {_FAILURE}; took=latency_s; !not judged=error_details",
    special={"result": _works},
    more=lambda it: _scores(it, "scores"),
    below=("attempts", _TRIES),
)
RUN_TOOL = Resource(fields="took={latency_s}, {attempts:attempt}", output="output")
RUN_GRADER = Resource(
    fields=f"grader={{metadata.name}} ({{metadata.type}}); {_FAILURE}; !not judged=error_details;"
    " took=metadata.execution_time; judge's tokens=metadata.token_usage",
    more=lambda it: {} if it.part("failure") is not None else _scores(it, "metadata.scores", "sub_rewards"),
)


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


def _end(rollout: Answer) -> Shown:
    if rollout.get("reward", float) is not None:
        return spelled(rollout.get("stop_reason", str))
    stage, code = rollout.get("failure_stage", str) or "", rollout.get("failure_code", str) or "failed"
    return styled(f"{stage} {code}".strip(), "red")


def spelled(code: str | None) -> str:
    """A code as words."""
    return (code or NOTHING).replace("_", " ")


ROLLOUT = Resource(
    fields="trace=id; >step; >row=row_index; >place=group_index; split; >reward; end; >tool calls;"
    " >tokens=completion_tokens; >took=duration_s",
    none="no such rollouts",
    spare="took; tokens; place; split; row; tool calls",
    special={"end": _end},
)


def _result(attempt: Answer) -> Styled:
    code, answered = attempt.get("code", str), attempt.get("status", int)
    return styled((code or "ok") + ("" if answered is None else f" ({answered})"), "red" if code else "green")


ATTEMPT = Resource(
    fields="time; endpoint={stage} {endpoint}; call=call_id; >try=attempt; result; >took=latency_ms; >queued=queued_ms",
    none="no calls",
    spare="queued; call; time",
    special={"time": lambda it: clock(it.need("at", float)), "result": _result},
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


def _without_score(regrade: Answer) -> str | None:
    codes = ", ".join(f"{code} {times}" for code, times in regrade.named("report.failures_by_code", int).items())
    failures = regrade.get("report.failures", int)
    return f"{failures:,} ({codes})" if failures else None


def _judge_tokens(regrade: Answer) -> str | None:
    kinds = ("prompt_tokens", "completion_tokens")
    used = regrade.children("report.judge_usage").items()
    return ", ".join(f"{name} {sum(it.get(kind, int) or 0 for kind in kinds):,}" for name, it in used) or None


REGRADE = Resource(
    fields="regrade=id; state=status; error=error.message; rollouts={report.n:,} in {report.groups:group};"
    " without a score; mean reward={report.reward_mean_before} -> {report.reward_mean_after};"
    " rank correlation={report.rank_correlation:.2f} (over {report.groups_ranked:group} that both tell apart);"
    " another best rollout=in {report.best_changed_share} of groups;"
    " groups with signal={report.signal_share_before:.1%} -> {report.signal_share_after:.1%}; judge tokens",
    none="no regrades",
    columns="regrade; state; >graded; created=created_at",
    spare="created",
    special={
        "without a score": _without_score,
        "judge tokens": _judge_tokens,
        "graded": lambda it: f"{it.get('done', int) or 0}/{it.get('total', int) or NOTHING}",
    },
)
