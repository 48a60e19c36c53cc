"""Registered tools and graders, and what came of trying them, for people."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rft.platform.cli.pages import Fitted, add, facts, figure, ident, state, table
from rft.platform.cli.registry_views import (
    Failed,
    Health,
    RegisteredGrader,
    RegisteredTool,
    RunGrader,
    RunTool,
    Tried,
    TriedGrader,
    TriedTool,
    ValidGrader,
)
from rft.platform.cli.words import NOTHING, counted, date, duration, number, one_line, printable, share


def tool_table(tools: Sequence[RegisteredTool]) -> Fitted:
    """One tool a line."""
    grid = table(ident("tool"), "name", "URL", "health", figure("failed"))
    for tool in tools:
        add(grid, tool.id, tool.name, tool.server_url, *_health_cells(tool.health))
    return Fitted(grid, spare=("URL", "failed"))


def tool_page(tool: RegisteredTool) -> RenderableType:
    """One tool."""
    return facts(
        [
            ("tool", tool.id),
            ("name", tool.name),
            ("URL", tool.server_url),
            ("headers", ", ".join(tool.headers or ()) or None),
            ("description", tool.description),
            ("timeout", None if tool.timeout_s is None else duration(tool.timeout_s)),
            ("calls at once", None if tool.max_concurrency is None else f"{tool.max_concurrency} at most"),
            ("calls per second", None if tool.rate_limit is None else f"{tool.rate_limit:g} at most"),
            ("retry", tool.retry),
            ("callbacks", tool.callback_url),
            ("created", date(tool.created_at)),
            *_health_facts(tool.health),
        ]
    )


def grader_table(graders: Sequence[RegisteredGrader]) -> Fitted:
    """One grader a line."""
    grid = table(ident("grader"), "name", "type", "health", figure("failed"))
    for grader in graders:
        add(grid, grader.id, grader.name, grader.type, *_health_cells(grader.health))
    return Fitted(grid, spare=("failed", "type"))


def grader_page(grader: RegisteredGrader) -> RenderableType:
    """One grader."""
    head = [("grader", grader.id), ("name", grader.name), ("type", grader.type), ("created", date(grader.created_at))]
    return facts([*head, *_health_facts(grader.health)])


def tried_tool_page(tried: TriedTool) -> RenderableType:
    """What came of a test call."""
    told = None if tried.error_code is None else f"a mistake ({tried.error_code})"
    head = facts([*_tried_facts(tried.is_ok, tried.failure, tried.latency_s), ("the model is told of", told)])
    return _with_output(Group(head, _tries(tried.attempts)), tried.output)


def tried_grader_page(tried: TriedGrader) -> RenderableType:
    """What came of a test grade."""
    head = facts(
        [
            *_tried_facts(tried.is_ok, tried.failure, tried.latency_s),
            *_scores(tried.reward, tried.scores),
            ("not judged", tried.error_details and Text(tried.error_details, style="red")),
        ]
    )
    return Group(head, _tries(tried.attempts))


def run_tool_page(run: RunTool) -> RenderableType:
    """What a tool answered."""
    took = f"{duration(run.latency_s)}, {counted(run.attempts, 'attempt')}"
    return _with_output(facts([("took", took)]), run.output)


def run_grader_page(run: RunGrader) -> RenderableType:
    """The grade of one answer, or why there is none."""
    meta, failed = run.metadata, run.failure
    tokens = meta.token_usage
    return facts(
        [
            ("grader", f"{meta.name} ({meta.type})"),
            ("failure", failed and Text(_failed(failed), style="red")),
            *([] if failed else _scores(run.reward, meta.scores | run.sub_rewards)),
            ("not judged", run.error_details and Text(run.error_details, style="red")),
            ("took", duration(meta.execution_time)),
            ("judge's tokens", None if tokens is None else f"{tokens:,}"),
        ]
    )


def valid_grader_page(valid: ValidGrader) -> RenderableType:
    """A grader that a job would take."""
    return Text(f"a job would take this grader: {one_line(valid.grader.name or '')} ({one_line(valid.grader.type)})")


def _health_cells(health: Health) -> tuple[Text, str]:
    return state(health.status), share(health.error_share)


def _health_facts(health: Health) -> list[tuple[str, str | Text | None]]:
    of = "" if health.error_share is None else f", {share(health.error_share)} of {health.attempts} calls failed"
    of += f", {share(health.client_error_share)} were answered 4xx" if health.client_error_share else ""
    return [
        ("health", state(health.status).append(of, style="default")),
        ("last called", None if health.last_seen is None else date(health.last_seen)),
        ("last failure", health.last_failure),
    ]


def _tried_facts(is_ok: bool, failed: Failed | None, latency_s: float) -> list[tuple[str, str | Text | None]]:
    return [
        ("result", Text("works", style="green") if is_ok else Text("does not work", style="red")),
        ("failure", failed and Text(_failed(failed), style="red")),
        ("took", duration(latency_s)),
    ]


def _scores(reward: float | None, scores: Mapping[str, float | None]) -> list[tuple[str, str | Text | None]]:
    return [("reward", number(reward)), *((f"  {one_line(name)}", number(score)) for name, score in scores.items())]


def _tries(attempts: Sequence[Tried]) -> Table:
    grid = table(figure("try"), figure("status"), "result", figure("took"))
    for attempt in attempts:
        status = NOTHING if attempt.status is None else str(attempt.status)
        add(grid, str(attempt.attempt), status, attempt.code or "ok", f"{attempt.latency_ms:.0f} ms")
    return grid


def _with_output(head: RenderableType, output: str | None) -> RenderableType:
    return head if output is None else Group(head, Text(printable(output)))


def _failed(failed: Failed) -> str:
    return f"{failed.code}: {one_line(failed.message, limit=2000)}"
