"""How files, models, tools, graders, providers and rehearsals are shown: their fields, as data."""

from rft.platform.cli.answers import Answer, Resource, Shown, Styled, state, styled
from rft.platform.cli.formats import counted, number, share

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
