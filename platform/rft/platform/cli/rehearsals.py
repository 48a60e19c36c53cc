"""Rehearsals that the platform plays, and the report of any rehearsal for people."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from rft.core.base import JsonObject
from rft.platform.cli.answers import Answer, Resource
from rft.platform.cli.client import PlatformProblem
from rft.platform.cli.formats import NOTHING, json_text, printable
from rft.platform.cli.inputs import CannotDo, part, read_body
from rft.platform.cli.pages import table
from rft.platform.cli.resources import rehearsal_state
from rft.platform.cli.session import Session, console
from rft.platform.cli.transfer import uploading_for_order, wait_for_end


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says."""

    job: Path
    """A JSON file with the body of the job's order."""
    rows: Path | None
    """None: the order's `training_file` is a path, as seen from the order."""
    calls_per_rollout: int | None = None
    max_rollouts: int | None = None


def rehearse_there(here: Session, wanted: Wanted) -> JsonObject:
    """The finished rehearsal as the API has it. Raises CannotDo when it failed; Ctrl-C cancels it, too."""
    order = read_body(str(wanted.job))
    unknown = _unknown_in(order)
    warn_of_unknown(unknown)
    numbers = {"calls_per_rollout": wanted.calls_per_rollout, "max_rollouts": wanted.max_rollouts}
    order |= {name: value for name, value in numbers.items() if value is not None}
    with uploading_for_order(here) as send:
        if wanted.rows is not None:
            order["training_file"] = send(wanted.rows)
        raw = here.client.post("/rehearsals", order)
    rehearsal_id = Answer(raw).need("id", str)
    path = f"/rehearsals/{part(rehearsal_id)}"
    try:
        here.note(f"{rehearsal_id} is ordered; Ctrl-C cancels it")
        raw = wait_for_end(here, "rehearsing", raw, path)
    except KeyboardInterrupt:
        with suppress(PlatformProblem):  # It may be over by now.
            here.note(f"{rehearsal_id}: {rehearsal_state(Answer(here.client.post(f'{path}/cancel')))}")
        raise typer.Exit(130) from None
    if Answer(raw).part("report") is None:
        why = Answer(raw).get("error.message", str) or "the platform could not play it"
        is_cancelled = Answer(raw).need("status", str) == "cancelled"
        raise CannotDo(f"{rehearsal_id} was cancelled" if is_cancelled else f"{rehearsal_id} failed: {why}")
    return {**raw, "unknown_fields": [*unknown]}


def warn_of_unknown(fields: Sequence[str]) -> None:
    """Also to whoever reads JSON: a field that was meant for another one changes what is rehearsed."""
    if fields:
        from rft.platform.jobs.order_checks import in_words

        text = f"warning: these fields are not known here and have no effect: {in_words(fields)}"
        typer.secho(printable(text), fg=typer.colors.YELLOW, err=True)


def _unknown_in(body: JsonObject) -> list[str]:
    """Paths of the fields that mean nothing to the platform; none where it will refuse the order."""
    from rft.platform.api.errors import BadRequest
    from rft.platform.jobs.order_checks import unknown_fields
    from rft.platform.registry.resolution import validated
    from rft.platform.rehearsals.schemas import RehearsalOrder

    try:
        return unknown_fields(validated(RehearsalOrder, {"training_file": "", **body}))
    except BadRequest:
        return []


def _safe_concurrency(endpoint: Answer) -> str:
    found = endpoint.get("safe_concurrency", int)
    least = "" if endpoint.need("is_limit_found", bool) else "at least "
    return NOTHING if found is None else f"{least}{found}"


def _errors(endpoint: Answer) -> str:
    codes = endpoint.named("errors_by_code", int).items()
    return ", ".join(f"{code} {count}" for code, count in codes) or "none"


ENDPOINT_REPORT = Resource(
    fields="endpoint={stage} {name}; >calls; errors; >p50=p50_ms; >p95=p95_ms; >p99=p99_ms;"
    " >answers/s={answers_per_s:.0f}; bears at once",
    special={"errors": _errors, "bears at once": _safe_concurrency},
)


def conclude(report: JsonObject, raw: JsonObject, *, as_json: bool) -> None:
    """Print the report, or `raw` for programs; exit with status 1 when a job would fail."""
    if as_json:
        typer.echo(json_text(raw))
    else:
        show_report(Answer(report), console())
    if any(report.get(name) for name in ("excluded_rollouts", "unfinished_rollouts", "missing_tools")):
        raise typer.Exit(1)


def show_report(report: Answer, console: Console) -> None:
    """A table, what it means, what to do."""
    console.print("Rehearsal", style="bold")
    console.print(table(ENDPOINT_REPORT, report.parts("endpoints"), console))
    excluded, unfinished = report.need("excluded_rollouts", int), report.need("unfinished_rollouts", int)
    console.print(
        f"{report.need('rollouts', int)} rollouts in {report.need('wall_s', float):.1f} s, {excluded} excluded,"
        f" {unfinished} not finished"
    )
    if (step_s := report.get("expected_step_s", float)) is not None:
        console.print(f"A training step spends about {step_s:.1f} s on tools and grader.")
    told = (("What to do", "advice"), ("What will limit a job", "limits"), ("What this rests on", "assumptions"))
    for title, path in told:
        console.print(f"\n[bold]{title}[/bold]")
        for sentence in report.listed(path, str):
            console.print(f"  - {printable(sentence)}", markup=False)
