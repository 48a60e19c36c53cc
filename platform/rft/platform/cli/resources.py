"""How files, models, tools, graders and what belongs to an organization are shown: columns and facts, as data."""

from rft.platform.cli.answers import (
    Answer,
    Column,
    Fact,
    Resource,
    Styled,
    at,
    count,
    file_size,
    milliseconds,
    percent,
    red,
    seconds,
    state,
    status,
    styled,
    text,
    thousands,
    when,
)
from rft.platform.cli.formats import NOTHING, counted, date, duration, number, share

_MODEL_CREATED = at("created", int, lambda created: date(created) if created else NOTHING)
MODEL = Resource(
    none="no models",
    columns=(
        Column("model", text("id"), "id"),
        Column("owner", text("owned_by")),
        Column("created", _MODEL_CREATED),
        Column("job", text("fine_tuning_job_id?"), "id"),
    ),
    spare=("created", "owner", "job"),
    facts=(
        ("model", text("id")),
        ("owner", text("owned_by")),
        ("created", lambda model: None if _MODEL_CREATED(model) == NOTHING else _MODEL_CREATED(model)),
        ("job", text("fine_tuning_job_id?")),
    ),
)


def _file_state(file: Answer) -> Styled:
    problems = file.get("dataset.problems", int)
    return styled(f"unusable: {counted(problems, 'problem')}", "red") if problems else state(file.need("status", str))


def _described(file: Answer) -> str | None:
    dataset = file.part("dataset")
    return None if dataset is None else ", ".join(dataset.texts("tools")) or "none"


def _repeated(file: Answer) -> str | None:
    repeated = file.get("dataset.duplicates", int)
    return f"{repeated:,}" if repeated else None


def _problems(file: Answer) -> Styled | None:
    pieces = [piece for said in file.texts("dataset.first_problems") for piece in (("\n", ""), (said, "red"))]
    return tuple(pieces[1:]) or None


def _unread(file: Answer) -> str | None:
    line, problems = file.get("dataset.stopped_at_line", int), file.get("dataset.problems", int) or 0
    return None if line is None else f"from line {line:,} on, for {counted(problems, 'problem')} before it"


FILE = Resource(
    none="no files",
    columns=(
        Column("file", text("id"), "id"),
        Column("name", text("filename")),
        Column("purpose", text("purpose")),
        Column("size", file_size("bytes"), "figure"),
        Column("rows", thousands("dataset.rows?"), "figure"),
        Column("state", _file_state),
        Column("created", when("created_at")),
    ),
    spare=("purpose", "rows", "created", "size"),
    facts=(
        ("file", text("id")),
        ("name", text("filename")),
        ("purpose", text("purpose")),
        ("size", file_size("bytes")),
        ("state", _file_state),
        ("created", when("created_at")),
        ("expires", when("expires_at?")),
        ("rows", thousands("dataset.rows?")),
        ("tools described", _described),
        ("repeated rows", _repeated),
        ("problems", _problems),
        ("not read", _unread),
    ),
)

BAD_LINE = Resource(
    none="no problems",
    columns=(
        Column("line", thousands("line"), "figure"),
        Column("where", text("path")),
        Column("problem", text("reason")),
    ),
    spare=("where",),
)

PERMISSION = Resource(
    none="no permissions",
    columns=(
        Column("permission", text("id"), "id"),
        Column("project", text("project_id")),
        Column("created", when("created_at")),
    ),
    spare=("created",),
)

SIGNING_SECRET = Resource(
    none="no signing secrets",
    columns=(
        Column("secret", text("id"), "id"),
        Column("state", status("status")),
        Column("created", when("created_at")),
        Column("retired", when("retired_at?")),
    ),
    spare=("retired", "created"),
)


def rehearsal_state(rehearsal: Answer) -> str:
    """A rehearsal's status with what it hides."""
    said = rehearsal.need("status", str)
    is_stopping = said in ("queued", "running") and rehearsal.get("is_cancel_requested", bool)
    return f"{said}, being cancelled" if is_stopping else said


REHEARSAL = Resource(
    none="no rehearsals",
    columns=(
        Column("rehearsal", text("id"), "id"),
        Column("state", lambda it: state(rehearsal_state(it))),
        Column("played", count("plan.rollouts"), "figure"),
        Column("burst", count("plan.burst"), "figure"),
        Column("excluded", percent("report.excluded_share?"), "figure"),
        Column("created", when("created_at")),
    ),
    spare=("burst", "created", "played"),
    facts=(
        ("rehearsal", text("id")),
        ("state", lambda it: state(rehearsal_state(it))),
        ("error", text("error.message?")),
        ("dataset", text("training_file")),
        ("rollouts", lambda it: f"{it.need('plan.rollouts', int)} of the step's burst of {it.need('plan.burst', int)}"),
        ("created", when("created_at")),
        ("started", when("started_at?")),
        ("finished", when("finished_at?")),
    ),
)


def _health(it: Answer) -> Styled:
    failed, refused = it.get("health.error_share", float), it.get("health.client_error_share", float)
    calls = it.get("health.attempts", int) or 0
    of = "" if failed is None else f", {share(failed)} of {calls} calls failed"
    of += f", {share(refused)} were answered 4xx" if refused else ""
    return (*state(it.need("health.status", str)), (of, "default"))


_HEALTH: tuple[Fact, ...] = (
    ("health", _health),
    ("last called", when("health.last_seen?")),
    ("last failure", text("health.last_failure?")),
)
TOOL = Resource(
    none="no registered tools",
    columns=(
        Column("tool", text("id"), "id"),
        Column("name", text("name")),
        Column("URL", text("server_url")),
        Column("health", status("health.status")),
        Column("failed", percent("health.error_share?"), "figure"),
    ),
    spare=("URL", "failed"),
    facts=(
        ("tool", text("id")),
        ("name", text("name")),
        ("URL", text("server_url")),
        ("headers", lambda tool: ", ".join(tool.named("headers", str)) or None),
        ("description", text("description?")),
        ("timeout", seconds("timeout_s?")),
        ("calls at once", at("max_concurrency?", int, "{} at most".format)),
        ("calls per second", at("rate_limit?", float, "{:g} at most".format)),
        ("retry", text("retry?")),
        ("callbacks", text("callback_url?")),
        ("created", when("created_at")),
        *_HEALTH,
    ),
)
GRADER = Resource(
    none="no registered graders",
    columns=(
        Column("grader", text("id"), "id"),
        Column("name", text("name")),
        Column("type", text("type")),
        Column("health", status("health.status")),
        Column("failed", percent("health.error_share?"), "figure"),
    ),
    spare=("failed", "type"),
    facts=(
        ("grader", text("id")),
        ("name", text("name")),
        ("type", text("type")),
        ("created", when("created_at")),
        *_HEALTH,
    ),
)


def _works(tried: Answer) -> Styled:
    return styled("works", "green") if tried.need("is_ok", bool) else styled("does not work", "red")


def _failure(it: Answer) -> Styled | None:
    failed = it.part("failure")
    return None if failed is None else red(f"{failed.need('code', str)}: {failed.need('message', str)}")


def _scores(it: Answer, *paths: str) -> list[tuple[str, str]]:
    found = {name: score for path in paths for name, score in it.named(path, float).items()}
    return [("reward", number(it.get("reward", float))), *((f"  {name}", number(it)) for name, it in found.items())]


def _not_graded(it: Answer) -> Styled | None:
    return red(it.get("error_details", str) or None)


def _told(tried: Answer) -> str | None:
    code = tried.get("error_code", str)
    return None if code is None else f"a mistake ({code})"


_TRIED: tuple[Fact, ...] = (("result", _works), ("failure", _failure), ("took", seconds("latency_s")))
_HTTP_ATTEMPT = Resource(
    columns=(
        Column("try", count("attempt"), "figure"),
        Column("status", count("status?"), "figure"),
        Column("result", lambda attempt: attempt.get("code", str) or "ok"),
        Column("took", milliseconds("latency_ms"), "figure"),
    ),
)
TRIED_TOOL = Resource(
    facts=(*_TRIED, ("the model is told of", _told)), below=("attempts", _HTTP_ATTEMPT), output="output"
)
TRIED_GRADER = Resource(
    facts=(*_TRIED, lambda it: _scores(it, "scores"), ("not judged", _not_graded)), below=("attempts", _HTTP_ATTEMPT)
)
RUN_TOOL = Resource(
    facts=(
        ("took", lambda it: f"{duration(it.need('latency_s', float))}, {counted(it.need('attempts', int), 'attempt')}"),
    ),
    output="output",
)


def _named(it: Answer, path: str) -> str:
    return f"{it.get(f'{path}.name', str) or ''} ({it.need(f'{path}.type', str)})"


def _run_scores(it: Answer) -> list[tuple[str, str]]:
    return [] if it.part("failure") is not None else _scores(it, "metadata.scores", "sub_rewards")


RUN_GRADER = Resource(
    facts=(
        ("grader", lambda it: _named(it, "metadata")),
        ("failure", _failure),
        _run_scores,
        ("not judged", _not_graded),
        ("took", seconds("metadata.execution_time")),
        ("judge's tokens", thousands("metadata.token_usage?")),
    )
)


def valid_grader(it: Answer) -> str:
    """Shown when a job would accept this grader."""
    return f"a job would take this grader: {_named(it, 'grader')}"
