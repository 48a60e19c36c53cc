"""Tools of a run: functions that the model is told of, and where those that are really called live."""

from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from rft.core.base import JsonObject, Record
from rft.core.dataset_fields import RowError, read_tools
from rft.core.messages import ToolSchema
from rft.platform.api.errors import BadRequest
from rft.platform.orders.references import TOOL_PREFIX
from rft.platform.orders.tool_schemas import Tool
from rft.platform.registry.redaction import refuse_redacted, shown_body, whole_body
from rft.platform.registry.repository import Registration, RegistrationRepository
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.unit_of_work import UnitOfWork

PARAM = "data_source.sampling_params.tools"
_ADDRESSES = ("server_url", "url")


class RunTool(Record):
    """One function."""

    told: ToolSchema
    """What the model is told of it."""
    server: Tool | None = None
    """Where it lives, header values and all; None: a call of it ends the sample."""


RUN_TOOLS = TypeAdapter[tuple[RunTool, ...]](tuple[RunTool, ...])


async def resolve_tools(uow: UnitOfWork, box: SecretBox, written: Sequence[JsonObject]) -> tuple[RunTool, ...]:
    """The tools as they are written, or as they are registered under their names. Raises BadRequest."""
    rows = RegistrationRepository(uow.connection)
    references = [str(tool["id"]) for tool in written if _is_reference(tool)]
    by_id = await rows.among(references)
    by_name = await rows.newest_named("tool", [name for tool in written if (name := _name_of(tool)) is not None])
    tools = tuple(_resolved(tool, by_id, by_name, box, f"{PARAM}[{place}]") for place, tool in enumerate(written))
    _refuse_mixture(tools)
    return tools


def shown_tool(written: JsonObject) -> JsonObject:
    """The tool as it may be stored and shown."""
    shown, function = shown_body(written), written.get("function")
    return {**shown, "function": shown_body(function)} if isinstance(function, dict) else shown


def has_tools(data_source: JsonObject) -> bool:
    """Whether a run with this data source, as it is shown, was ordered with tools."""
    sampling = data_source.get("sampling_params")
    return isinstance(sampling, dict) and bool(sampling.get("tools"))


def _is_reference(tool: JsonObject) -> bool:
    return "type" not in tool and str(tool.get("id", "")).startswith(TOOL_PREFIX)


def _flat(tool: JsonObject) -> JsonObject:
    """All fields in one place: chat completions have them under `function`."""
    function = tool.get("function")
    flat = {**tool, **function} if isinstance(function, dict) else dict(tool)
    return {name: value for name, value in flat.items() if name not in ("type", "function", "strict", "id")}


def _name_of(tool: JsonObject) -> str | None:
    name = _flat(tool).get("name")
    return name if isinstance(name, str) else None


def _resolved(
    tool: JsonObject,
    by_id: dict[str, Registration],
    by_name: dict[str, Registration],
    box: SecretBox,
    param: str,
) -> RunTool:
    if _is_reference(tool):
        found = by_id.get(str(tool["id"]))
        if found is None or found.kind != "tool":
            raise BadRequest(f"There is no registered tool '{tool['id']}'.", param=f"{param}.id", code="tool_not_found")
        body = whole_body(found, box)
        return RunTool(told=_told({"type": "function", **_schema(body)}, param), server=_server(body, param))
    if tool.get("type", "function") != "function":
        message = f"Invalid '{param}.type': must be 'function'; the hosted service's own tools are not here."
        raise BadRequest(message, param=f"{param}.type", code="invalid_value")
    refuse_redacted(tool, param)
    told, flat = _told(tool, param), _flat(tool)
    if any(flat.get(name) is not None for name in _ADDRESSES):
        return RunTool(told=told, server=_server(flat, param))
    registered = by_name.get(told.name)
    return RunTool(told=told, server=None if registered is None else _server(whole_body(registered, box), param))


def _schema(body: JsonObject) -> JsonObject:
    return {name: body[name] for name in ("name", "description", "parameters") if body.get(name) is not None}


def _told(tool: JsonObject, param: str) -> ToolSchema:
    try:
        (told,) = read_tools({"tools": cast("list[JsonValue]", [tool])})
    except RowError as error:
        place = f"{param}{error.path.removeprefix('tools[0]')}"
        raise BadRequest(f"Invalid '{place}': {error.reason}.", param=place, code="invalid_value") from error
    return told


def _server(body: JsonObject, param: str) -> Tool:
    try:
        return Tool.model_validate({name: value for name, value in body.items() if name != "parameters"})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = f"{param}.{problem['loc'][0]}" if problem["loc"] else param
        reason = problem["msg"].removesuffix(".")
        raise BadRequest(f"Invalid '{place}': {reason}.", param=place, code="invalid_value") from error


def _refuse_mixture(tools: Sequence[RunTool]) -> None:
    """Raises BadRequest: a sample either goes on with what tools answer, or ends with the first call."""
    names = [tool.told.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadRequest(f"Invalid '{PARAM}': '{twice}' is described twice.", param=PARAM, code="invalid_value")
    silent = [tool.told.name for tool in tools if tool.server is None]
    if silent and len(silent) < len(tools):
        message = (
            f"Invalid '{PARAM}': '{silent[0]}' has no 'server_url' and is not registered, others are. Either all are"
            " called, or none is and a sample ends with the model's first call."
        )
        raise BadRequest(message, param=PARAM, code="invalid_value")
