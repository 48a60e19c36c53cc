"""Answers on a terminal: tables that adapt to its width, lists of named values, conversations."""

import json
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from rft.platform.cli.answers import Answer, Field, Resource, Styled, split
from rft.platform.cli.formats import NOTHING, one_line, printable
from rft.platform.cli.rollout_resources import spelled

_UNBOUNDED = 10_000
_FACT_LIMIT = 2000
_ROLES = {"system": "dim", "developer": "dim", "user": "bold green", "assistant": "bold cyan", "tool": "bold magenta"}
_PLACE = "trace=id; place={split}, step {step}, row {row_index}, #{group_index}; policy version"
_UNDER_WAY, _ENDED = Resource(_PLACE), Resource(f"{_PLACE}; took={{duration_s}}, {{completion_tokens:token}} sampled")


def table(resource: Resource, answers: Iterable[Answer], console: Console) -> Table:
    """One object a line, `-` where there is no value; without as many of the spare columns as the width takes."""
    fields, spare = resource.table(), split(resource.spare)
    rows = [{field.title: to_text(field.show(answer) or NOTHING) for field in fields} for answer in answers]
    unbounded = console.options.update(max_width=_UNBOUNDED)
    while (room := console.measure(_grid(fields, rows), options=unbounded)).maximum > console.width and spare:
        too_much = spare.pop(0)
        fields = [field for field in fields if field.title != too_much]
    grid = _grid(fields, rows)
    for field, column in zip(fields, grid.columns, strict=True):
        # An id is only broken where there is room for nothing else.
        column.no_wrap = field.is_figure or (field.is_id and room.minimum <= console.width)
    return grid


def _grid(fields: Sequence[Field], rows: Iterable[dict[str, Text]]) -> Table:
    columns = [
        Column(
            field.title,
            justify="right" if field.is_figure else "left",
            overflow="fold" if field.is_id else "ellipsis",
            no_wrap=field.is_id or field.is_figure,
        )
        for field in fields
    ]
    grid = Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    grid.padding = (0, 2, 0, 0)
    for row in rows:
        grid.add_row(*(row[field.title] for field in fields))
    return grid


def page(resource: Resource, answer: Answer, console: Console) -> RenderableType:
    """One object: its facts, then a table or a text where its resource has one."""
    parts: list[RenderableType] = [facts(resource.facts(answer))]
    if resource.below is not None:
        path, entries = resource.below
        parts.append(table(entries, answer.parts(path), console))
    if resource.output is not None and (output := answer.get(resource.output, str)) is not None:
        parts.append(Text(printable(output)))
    return Group(*parts)


def facts(named: Iterable[tuple[str, str | Styled]]) -> Table:
    """Names and values, one pair a line."""
    grid = Table.grid(Column(style="dim", no_wrap=True), Column(overflow="fold"), padding=(0, 2, 0, 0))
    for name, value in named:
        grid.add_row(to_text(name), to_text(value, limit=_FACT_LIMIT))
    return grid


def to_text(value: str | Styled, *, limit: int = 200) -> Text:
    """Foreign text, each piece safe to print and on one line."""
    pieces = [(value, "")] if isinstance(value, str) else value
    return Text.assemble(*((said if said == "\n" else one_line(said, limit=limit), style) for said, style in pieces))


def rollout_page(rollout: Answer) -> RenderableType:
    """A rollout's conversation, then how it was judged."""
    record = rollout.part("record")
    parts: list[RenderableType] = [facts((_UNDER_WAY if record is None else _ENDED).facts(rollout))]
    if (rollout.get("status", str) or "ended") != "ended":
        parts += [Text(), _unused(rollout)]
    if record is None:
        return Group(*parts)
    messages = record.parts("messages")
    calls = [call for message in messages for call in message.parts("tool_calls")]
    names = {call.need("call_id", str): call.need("name", str) for call in calls}
    for message in messages:
        parts += _spoken(message, names)
    return Group(*parts, Text(), _verdict(rollout, record))


def _spoken(message: Answer, names: Mapping[str, str]) -> Iterable[RenderableType]:
    role, content, calls = message.need("role", str), message.need("content", str), message.parts("tool_calls")
    who = role
    if role == "tool":
        who = f"tool {message.get('name', str) or names.get(message.get('tool_call_id', str) or '', '')}".rstrip()
    yield Text()
    yield Text(one_line(who), style=_ROLES.get(role, "bold"))
    thought = (message.get("reasoning_content", str) or "").strip("\n")
    said = [Text(printable(thought), style="dim italic")] if thought.strip() else []
    said += [Text(printable(content.strip("\n")))] if content.strip() or not calls else []
    for call in calls:
        name = (one_line(call.need("name", str)), "magenta")
        said.append(Text.assemble(("-> ", "dim"), name, f" {_arguments(call.need('arguments', str))}"))
    yield from (Padding(text, (0, 0, 0, 2), expand=False) for text in said)


def _arguments(text: str) -> str:
    """As the model wrote them; without the spaces of JSON where it is JSON."""
    try:
        return printable(json.dumps(json.loads(text), ensure_ascii=False))
    except (ValueError, RecursionError):
        return printable(text)


def _unused(rollout: Answer) -> Text:
    if rollout.get("status", str) != "abandoned":
        return Text("under way: its conversation is shown once it has ended", style="dim")
    successor = rollout.get("superseded_by", str)
    instead = "" if successor is None else f"; {one_line(successor)} took its place"
    return Text(f"abandoned, counted nowhere: it was cut off, or its step was done again{instead}", style="yellow")


def _verdict(rollout: Answer, record: Answer) -> Text:
    reward = rollout.get("reward", float)
    if reward is None:
        stage, code, said = (record.get(f"outcome.{name}", str) for name in ("stage", "code", "message"))
        why = f"{stage or 'unknown'}: {code or 'failure'}: {one_line(said or '', limit=2000)}"
        return Text(f"left out of training, no reward ({printable(why)})", style="red")
    scores = record.named("outcome.scores", float).items()
    told = ", ".join(f"{one_line(name)} {score:.3f}" for name, score in scores if score is not None)
    end = one_line(spelled(rollout.get("stop_reason", str)))
    by = f"  ({told})" if told else ""
    said = record.get("outcome.reply", str)
    why = f"\n{one_line(said, limit=2000)}" if said else ""
    return Text.assemble(("reward ", "dim"), (f"{reward:.3f}", "bold"), by, (f"  {end}", "dim"), (why, "dim"))
