"""How jobs and what comes of them are shown: their columns and facts, as data."""

from collections.abc import Callable

from rft.platform.cli.answers import (
    Answer,
    Column,
    Resource,
    Show,
    Styled,
    at,
    count,
    figure,
    milliseconds,
    red,
    seconds,
    state,
    status,
    styled,
    text,
    thousands,
    when,
)
from rft.platform.cli.formats import NOTHING, clock, counted, date, duration, number, share


def job_state(job: Answer) -> str:
    """A job's status with what it hides: a move under way, or a hold."""
    held, said = job.get("hold.endpoint", str), job.need("status", str)
    if held is not None:
        return f"held ({held})"
    for move, doing in (("is_cancel_requested", "cancelled"), ("is_pause_requested", "paused")):
        if said == "running" and job.get(move, bool):
            return f"running, being {doing}"
    return said


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
    return red(error.need("message", str) + (f" ({named})" if named else ""))


def _hold(job: Answer) -> str | None:
    hold = job.part("hold")
    if hold is None:
        return None
    return f"{hold.need('reason', str)} (step {hold.need('step', int)}, since {date(hold.need('since', int))})"


def _burst(job: Answer) -> str | None:
    resolved = job.part("resolved_hyperparameters")
    if resolved is None:
        return None
    rows, group_size = resolved.need("batch_size", int), resolved.need("group_size", int)
    return f"{resolved.need('burst', int)} rollouts at once ({rows} rows x {group_size})"


def _name(part: Answer) -> str:
    return next((name for key in ("name", "id", "type") if (name := part.get(key, str))), NOTHING)


def _tools(job: Answer) -> str | None:
    order = job.part("method.reinforcement")
    return None if order is None else ", ".join(map(_name, order.parts("tools"))) or "none"


def _grader(job: Answer) -> str | None:
    grader = job.part("method.reinforcement.grader")
    return None if grader is None else _name(grader)


def _used(job: Answer) -> str | None:
    usage = job.part("usage_metrics")
    if usage is None:
        return None
    return f"{duration(usage.need('training_seconds', float))}, {counted(usage.need('rollouts', int), 'rollout')}"


def _pairs(path: str) -> Show:
    return lambda it: ", ".join(f"{name}={value}" for name, value in it.named(path, str).items()) or None


JOB = Resource(
    none="no jobs",
    columns=(
        Column("job", text("id"), "id"),
        Column("state", lambda job: state(job_state(job))),
        Column("step", job_progress, "figure"),
        Column("base model", text("model")),
        Column("suffix", text("user_provided_suffix?")),
        Column("created", when("created_at")),
    ),
    spare=("suffix", "base model", "created"),
    facts=(
        ("job", text("id")),
        ("state", lambda job: state(job_state(job))),
        ("waits because", _hold),
        ("paused because", lambda job: red(job.get("pause_reason.message", str))),
        ("waits for", wanted_slot),
        ("error", _error),
        ("base model", text("model")),
        ("fine-tuned model", text("fine_tuned_model?")),
        ("step", job_progress),
        ("best step", count("best_step?")),
        ("created", when("created_at")),
        ("started", when("started_at?")),
        ("finished", when("finished_at?")),
        ("expected to finish", when("estimated_finish?")),
        ("training file", text("training_file")),
        ("validation file", text("validation_file?")),
        ("result files", lambda job: ", ".join(job.texts("result_files")) or None),
        ("tools", _tools),
        ("grader", _grader),
        ("burst", _burst),
        ("epochs", count("resolved_hyperparameters.n_epochs?")),
        ("seed", count("seed?")),
        ("metadata", _pairs("metadata")),
        ("used", _used),
        ("trained tokens", thousands("trained_tokens?")),
    ),
)

CHECKPOINT = Resource(
    none="no checkpoints",
    columns=(
        Column("step", count("step_number"), "figure"),
        Column("model", text("fine_tuned_model_checkpoint"), "id"),
        Column("train reward", figure("metrics.train_mean_reward?"), "figure"),
        Column("validation reward", figure("metrics.full_valid_mean_reward?"), "figure"),
        Column("created", when("created_at")),
        Column("id", text("id"), "id"),
    ),
    spare=("id", "created", "train reward"),
)


def _loud(path: str, above: float) -> Show:
    """A share that is red above a bound; 0 where there is none."""
    return lambda it: styled(share(it.get(path, float) or 0.0), "red" if (it.get(path, float) or 0) > above else "")


def _failures(endpoint: Answer) -> str | None:
    by_code = endpoint.children("errors_by_code") | endpoint.children("client_errors_by_status")
    return ", ".join(f"{code} {one.need('count', int)}" for code, one in by_code.items()) or None


ENDPOINT = Resource(
    none="no calls yet",
    columns=(
        Column("endpoint", lambda it: f"{it.need('stage', str)} {it.need('endpoint', str)}"),
        Column("steps", lambda it: f"{it.need('from_step', int)}-{it.need('to_step', int)}"),
        Column("calls", count("attempts"), "figure"),
        Column("failed", _loud("error_share", 0.05), "figure"),
        Column("4xx", _loud("client_error_share", 0.9), "figure"),
        Column("p50", milliseconds("latency_p50_ms"), "figure"),
        Column("p95", milliseconds("latency_p95_ms"), "figure"),
        Column("queued p95", milliseconds("queued_p95_ms"), "figure"),
        Column("failures and 4xx", _failures),
    ),
    spare=("queued p95", "p50", "steps"),
)


def spelled(code: str | None) -> str:
    """A code as words."""
    return (code or NOTHING).replace("_", " ")


def _end(rollout: Answer) -> str | Styled:
    if rollout.get("reward", float) is None:
        stage, code = rollout.get("failure_stage", str) or "", rollout.get("failure_code", str) or "failed"
        return styled(f"{stage} {code}".strip(), "red")
    return spelled(rollout.get("stop_reason", str))


ROLLOUT = Resource(
    none="no such rollouts",
    columns=(
        Column("trace", text("id"), "id"),
        Column("step", count("step"), "figure"),
        Column("row", count("row_index"), "figure"),
        Column("place", count("group_index"), "figure"),
        Column("split", text("split")),
        Column("reward", figure("reward?"), "figure"),
        Column("end", _end),
        Column("tool calls", count("tool_calls"), "figure"),
        Column("tokens", count("completion_tokens"), "figure"),
        Column("took", seconds("duration_s"), "figure"),
    ),
    spare=("took", "tokens", "place", "split", "row", "tool calls"),
)


def _result(attempt: Answer) -> Styled:
    code, answered = attempt.get("code", str), attempt.get("status", int)
    return styled((code or "ok") + ("" if answered is None else f" ({answered})"), "red" if code else "green")


ATTEMPT = Resource(
    none="no calls",
    columns=(
        Column("time", at("at", float, clock)),
        Column("endpoint", lambda it: f"{it.need('stage', str)} {it.need('endpoint', str)}"),
        Column("call", text("call_id"), "id"),
        Column("try", count("attempt"), "figure"),
        Column("result", _result),
        Column("took", milliseconds("latency_ms"), "figure"),
        Column("queued", milliseconds("queued_ms"), "figure"),
    ),
    spare=("queued", "call", "time"),
)


def _left_out(step: Answer) -> Styled | None:
    left_out = step.get("record.train.excluded_share", float)
    return None if left_out is None else styled(share(left_out), "red" if left_out else "")


STEP = Resource(
    none="no steps",
    columns=(
        Column("step", count("step"), "figure"),
        Column("train reward", figure("record.train.reward_mean?"), "figure"),
        Column("validation reward", figure("record.valid.reward_mean?"), "figure"),
        Column("rollouts", count("record.train.rollouts?"), "figure"),
        Column("left out", _left_out, "figure"),
        Column("tool calls", figure("record.train.tool_calls_mean?", 1), "figure"),
        Column("tokens", figure("record.train.completion_tokens_mean?", 0), "figure"),
        Column("took", seconds("record.timing.full_step_s?"), "figure"),
    ),
    spare=("tokens", "rollouts", "took", "tool calls", "left out"),
)


def _reported(say: Callable[[Answer], str | None]) -> Show:
    """Of a regrade's report, once there is one."""
    return lambda regrade: None if (report := regrade.part("report")) is None else say(report)


def _change(before: str, after: str, say: Callable[[float | None], str]) -> Show:
    return _reported(lambda report: f"{say(report.get(before, float))} -> {say(report.get(after, float))}")


def _without_score(report: Answer) -> str | None:
    codes = ", ".join(f"{code} {times}" for code, times in report.named("failures_by_code", int).items())
    failures = report.need("failures", int)
    return f"{failures:,} ({codes})" if failures else None


def _correlation(report: Answer) -> str:
    ranked = counted(report.need("groups_ranked", int), "group")
    return f"{number(report.get('rank_correlation', float), 2)} (over {ranked} that both tell apart)"


def _judge_tokens(report: Answer) -> str | None:
    kinds = ("prompt_tokens", "completion_tokens")
    used = {name: sum(it.get(kind, int) or 0 for kind in kinds) for name, it in report.children("judge_usage").items()}
    return ", ".join(f"{name} {tokens:,}" for name, tokens in used.items()) or None


REGRADE = Resource(
    none="no regrades",
    columns=(
        Column("regrade", text("id"), "id"),
        Column("state", status("status")),
        Column("graded", lambda it: f"{it.get('done', int) or 0}/{it.get('total', int) or NOTHING}", "figure"),
        Column("created", when("created_at")),
    ),
    spare=("created",),
    facts=(
        ("regrade", text("id")),
        ("state", status("status")),
        ("error", text("error.message?")),
        ("rollouts", _reported(lambda it: f"{it.need('n', int):,} in {counted(it.need('groups', int), 'group')}")),
        ("without a score", _reported(_without_score)),
        ("mean reward", _change("reward_mean_before", "reward_mean_after", number)),
        ("rank correlation", _reported(_correlation)),
        ("another best rollout", _reported(lambda it: f"in {share(it.get('best_changed_share', float))} of groups")),
        ("groups with signal", _change("signal_share_before", "signal_share_after", share)),
        ("judge tokens", _reported(_judge_tokens)),
    ),
)
