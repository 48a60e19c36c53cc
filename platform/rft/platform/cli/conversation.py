"""A rollout for people: its conversation reads like one."""

import json
from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from rft.platform.cli.answers import Answer, Resource
from rft.platform.cli.formats import one_line, printable
from rft.platform.cli.pages import facts
from rft.platform.cli.resources import spelled

_ROLES = {"system": "dim", "developer": "dim", "user": "bold green", "assistant": "bold cyan", "tool": "bold magenta"}
_PLACE = "trace=id; place={split}, step {step}, row {row_index}, #{group_index}; policy version"
_UNDER_WAY, _ENDED = Resource(_PLACE), Resource(f"{_PLACE}; took={{duration_s}}, {{completion_tokens:token}} sampled")


def rollout_page(rollout: Answer) -> RenderableType:
    """The conversation, then how it was judged."""
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
    said = [Text(printable(content.strip("\n")))] if content.strip() or not calls else []
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
    return Text.assemble(("reward ", "dim"), (f"{reward:.3f}", "bold"), by, (f"  {end}", "dim"))
