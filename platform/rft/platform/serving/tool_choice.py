"""Which tools the model is told of, and which of them it has to call."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from rft.core.messages import ToolSchema
from rft.platform.serving.refused import refused


@dataclass(frozen=True, slots=True)
class ChosenTools:
    """What `tool_choice` makes of a request's tools."""

    told: tuple[ToolSchema, ...]
    """Those that the model is told of."""
    forced: tuple[str, ...] = ()
    """Names of those one of which it has to call; none: as it likes."""


def to_chosen_tools(choice: JsonValue, tools: tuple[ToolSchema, ...]) -> ChosenTools:
    """Of chat completions, and of responses, which have the same in a flat shape. Raises BadRequest."""
    match choice:
        case None | "auto":
            return ChosenTools(tools)
        case "none":
            return ChosenTools(())
        case "required":
            return ChosenTools(tools, _names(tools))
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return ChosenTools(tools, _names(_described(tools, [name])))
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(entries)},
        } | {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": list(entries)}:
            told = _described(tools, [_name_of(entry) for entry in entries])
            return ChosenTools(told, _names(told) if mode == "required" else ())
        case _:
            why = "must be 'auto', 'none', 'required', a function that 'tools' describes or a list of allowed tools"
            raise refused("tool_choice", why)


def _described(tools: Sequence[ToolSchema], names: Sequence[JsonValue]) -> tuple[ToolSchema, ...]:
    known = {tool.name for tool in tools}
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise refused("tool_choice", f"names a tool that 'tools' does not describe: {name!r}")
    return tuple(tool for tool in tools if tool.name in names)


def _names(tools: Sequence[ToolSchema]) -> tuple[str, ...]:
    if not tools:
        raise refused("tool_choice", "asks for a call, and there are no tools")
    return tuple(tool.name for tool in tools)


def _name_of(entry: JsonValue) -> JsonValue:
    match entry:
        case {"function": {"name": name}} | {"name": name}:
            return name
        case _:
            return None
