"""Rollouts and regrades, for people: a conversation reads like one."""

import json
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from rft.platform.cli.pages import Fitted, add, cell, facts, figure, ident, state, table
from rft.platform.cli.rollout_views import Attempt, Message, Outcome, Regrade, RegradeReport, Rollout, WholeRollout
from rft.platform.cli.words import NOTHING, clock, counted, date, duration, number, one_line, printable, share

_ROLES = {"system": "dim", "developer": "dim", "user": "bold green", "assistant": "bold cyan", "tool": "bold magenta"}


def rollout_table(rollouts: Sequence[Rollout]) -> Fitted:
    """One rollout a line."""
    grid = table(
        ident("trace"), *map(figure, ("step", "row", "place")), "split", figure("reward"), "end", *map(figure, _COUNTS)
    )
    for rollout in rollouts:
        add(
            grid,
            rollout.id,
            str(rollout.step),
            str(rollout.row_index),
            str(rollout.group_index),
            rollout.split,
            number(rollout.reward),
            _end(rollout),
            str(rollout.tool_calls),
            str(rollout.completion_tokens),
            duration(rollout.duration_s),
        )
    return Fitted(grid, spare=("took", "tokens", "place", "split", "row", "tool calls"))


_COUNTS = ("tool calls", "tokens", "took")


def rollout_page(rollout: WholeRollout) -> RenderableType:
    """The conversation, then how it was judged."""
    record = rollout.record
    tokens = counted(rollout.completion_tokens, "token")
    parts: list[RenderableType] = [
        facts(
            [
                ("trace", rollout.id),
                ("place", f"{rollout.split}, step {rollout.step}, row {rollout.row_index}, #{rollout.group_index}"),
                ("policy version", str(rollout.policy_version)),
                ("took", None if record is None else f"{duration(rollout.duration_s)}, {tokens} sampled"),
            ]
        )
    ]
    if rollout.status != "ended":
        parts += [Text(), _unused(rollout)]
    if record is None:
        return Group(*parts)
    names = {call.call_id: call.name for message in record.messages for call in message.tool_calls}
    for message in record.messages:
        parts += _spoken(message, names)
    return Group(*parts, Text(), _verdict(rollout, record.outcome))


def attempt_table(attempts: Sequence[Attempt]) -> Fitted:
    """One attempt a line."""
    grid = table("time", "endpoint", ident("call"), figure("try"), "result", *map(figure, ("took", "queued")))
    for attempt in attempts:
        status = "" if attempt.status is None else f" ({attempt.status})"
        add(
            grid,
            clock(attempt.at),
            f"{attempt.stage} {attempt.endpoint}",
            attempt.call_id,
            str(attempt.attempt),
            Text(f"{attempt.code or 'ok'}{status}", style="red" if attempt.code else "green"),
            f"{attempt.latency_ms:.0f} ms",
            f"{attempt.queued_ms:.0f} ms",
        )
    return Fitted(grid, spare=("queued", "call", "time"))


def regrade_table(regrades: Sequence[Regrade]) -> Fitted:
    """One regrade a line."""
    grid = table(ident("regrade"), "state", figure("graded"), "created")
    for regrade in regrades:
        total = NOTHING if regrade.total is None else str(regrade.total)
        add(grid, regrade.id, state(regrade.status), f"{regrade.done}/{total}", date(regrade.created_at))
    return Fitted(grid, spare=("created",))


def regrade_page(regrade: Regrade) -> RenderableType:
    """What another grader changes."""
    report, error = regrade.report, regrade.error
    head = [("regrade", regrade.id), ("state", state(regrade.status)), ("error", error and error.message)]
    return facts([*head, *([] if report is None else _changes(report))])


def _changes(report: RegradeReport) -> list[tuple[str, str | None]]:
    failed = ", ".join(f"{code} {count}" for code, count in report.failures_by_code.items())
    correlation = number(report.rank_correlation, 2)
    tokens = [f"{model} {one.prompt_tokens + one.completion_tokens:,}" for model, one in report.judge_usage.items()]
    return [
        ("rollouts", f"{report.n:,} in {counted(report.groups, 'group')}"),
        ("without a score", f"{report.failures:,} ({failed})" if report.failures else None),
        ("mean reward", f"{number(report.reward_mean_before)} -> {number(report.reward_mean_after)}"),
        ("rank correlation", f"{correlation} (over {counted(report.groups_ranked, 'group')} that both tell apart)"),
        ("another best rollout", f"in {share(report.best_changed_share)} of groups"),
        ("groups with signal", f"{share(report.signal_share_before)} -> {share(report.signal_share_after)}"),
        ("judge tokens", ", ".join(tokens) or None),
    ]


def _spoken(message: Message, names: dict[str, str]) -> Iterable[RenderableType]:
    who = message.role
    if message.role == "tool":
        who = f"tool {message.name or names.get(message.tool_call_id or '', '')}".rstrip()
    yield Text()
    yield Text(one_line(who), style=_ROLES.get(message.role, "bold"))
    if message.content.strip() or not message.tool_calls:
        yield _indented(Text(printable(message.content.strip("\n"))))
    for call in message.tool_calls:
        name = (one_line(call.name), "magenta")
        yield _indented(Text.assemble(("-> ", "dim"), name, f" {_arguments(call.arguments)}"))


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2), expand=False)


def _arguments(text: str) -> str:
    """As the model wrote them; without the spaces of JSON where it is JSON."""
    try:
        return printable(json.dumps(json.loads(text), ensure_ascii=False))
    except ValueError:
        return printable(text)


def _unused(rollout: WholeRollout) -> Text:
    if rollout.status != "abandoned":
        return Text("under way: its conversation is shown once it has ended", style="dim")
    instead = "" if rollout.superseded_by is None else f"; {rollout.superseded_by} took its place"
    return Text(f"abandoned, counted nowhere: it was cut off, or its step was done again{instead}", style="yellow")


def _verdict(rollout: Rollout, outcome: Outcome) -> Text:
    if rollout.reward is None:
        said = one_line(outcome.message or "", limit=2000)
        why = f"{outcome.stage or 'unknown'}: {outcome.code or 'failure'}: {said}"
        return Text(f"left out of training, no reward ({why})", style="red")
    scores = ", ".join(f"{one_line(name)} {score:.3f}" for name, score in outcome.scores.items())
    line = Text.assemble(("reward ", "dim"), (f"{rollout.reward:.3f}", "bold"))
    return line.append(f"  ({scores})" if scores else "").append(f"  {_words(rollout.stop_reason)}", style="dim")


def _end(rollout: Rollout) -> Text:
    if rollout.reward is None:
        return cell(f"{rollout.failure_stage or ''} {rollout.failure_code or 'failed'}".strip(), "red")
    return cell(_words(rollout.stop_reason))


def _words(code: str | None) -> str:
    return (code or NOTHING).replace("_", " ")
