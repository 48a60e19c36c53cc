"""The report of a rehearsal for people: a table, what it means, what to do."""

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from rft.core.base import JsonObject
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalReport


def to_report(rehearsal: JsonObject) -> RehearsalReport | None:
    """Of a rehearsal as the API has it; None before it is completed. Raises ValidationError."""
    report = rehearsal.get("report")
    return None if report is None else RehearsalReport.model_validate(report)


def show(report: RehearsalReport, console: Console) -> None:
    """Print it."""
    table = Table(
        Column("endpoint", no_wrap=True),
        "calls",
        "errors",
        "p50",
        "p95",
        "p99",
        "answers/s",
        "bears at once",
        title="Rehearsal",
    )
    for endpoint in report.endpoints:
        table.add_row(*_cells(endpoint))
    console.print(table)
    console.print(
        f"{report.rollouts} rollouts in {report.wall_s:.1f} s, {report.excluded_rollouts} excluded,"
        f" {report.unfinished_rollouts} not finished"
    )
    if report.expected_step_s is not None:
        console.print(f"A training step spends about {report.expected_step_s:.1f} s on tools and grader.")
    console.print("\n[bold]What to do[/bold]")
    for sentence in report.advice:
        console.print(f"  - {escape(sentence)}")
    console.print("\n[bold]What this rests on[/bold]")
    for sentence in report.assumptions:
        console.print(f"  - {escape(sentence)}")


def _cells(endpoint: EndpointReport) -> list[str]:
    errors = ", ".join(f"{code} {count}" for code, count in endpoint.errors_by_code.items()) or "none"
    least = "" if endpoint.is_limit_found else "at least "
    return [
        escape(f"{endpoint.stage} {endpoint.name}"),
        str(endpoint.calls),
        errors,
        *(_milliseconds(value) for value in (endpoint.p50_ms, endpoint.p95_ms, endpoint.p99_ms)),
        "-" if endpoint.answers_per_s is None else f"{endpoint.answers_per_s:.0f}",
        "-" if endpoint.safe_concurrency is None else f"{least}{endpoint.safe_concurrency}",
    ]


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
