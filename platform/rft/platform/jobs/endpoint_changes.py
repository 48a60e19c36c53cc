"""From a job's method and a change of its endpoints to the method that is to run. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel

from rft.core.base import JsonObject
from rft.core.secret_urls import redact_url
from rft.core.spec import RunSecrets
from rft.platform.api.errors import BadRequest
from rft.platform.jobs.endpoint_schemas import EndpointsChange
from rft.platform.orders.method_urls import with_grader_url, with_tool_urls
from rft.platform.orders.redaction import redacted
from rft.platform.orders.schemas import Method
from rft.platform.registry.redaction import refuse_moved_secrets, refuse_redacted, with_stored_secrets
from rft.platform.registry.resolution import validated

_ADDRESSES = ("server_url", "url", "callback_url")


@dataclass(frozen=True, slots=True)
class ChangedField:
    """One address, or the headers of one endpoint."""

    path: str
    """In the request: `tools.search.server_url`."""
    description: str
    """What it is now. Never a value of a header or a URL's query."""


@dataclass(frozen=True, slots=True)
class ChangedMethod:
    """What is to run from now on."""

    method: Method
    """Header values and all."""
    fields: tuple[ChangedField, ...]
    moved_tools: tuple[str, ...]
    """Names of the tools whose address changed."""
    has_moved_grader: bool


def whole_method(stored: JsonObject, secrets: RunSecrets) -> JsonObject:
    """A job's method as it is stored, with its header values and its URLs' secrets in their places."""
    reinforcement = cast("JsonObject", stored["reinforcement"])
    whole: JsonObject = {**reinforcement}
    if isinstance(tools := reinforcement.get("tools"), list):
        by_name = [cast("JsonObject", tool) for tool in tools]
        whole["tools"] = [
            _with_headers(with_tool_urls(tool, secrets), secrets.tool_headers.get(str(tool["name"])))
            for tool in by_name
        ]
    grader = cast("JsonObject", reinforcement["grader"])
    if isinstance(parts := grader.get("graders"), dict):
        graders = {
            name: _with_headers(
                with_grader_url(cast("JsonObject", part), secrets.part_urls.get(name)), secrets.part_headers.get(name)
            )
            for name, part in parts.items()
        }
        whole["grader"] = {**grader, "graders": cast("JsonObject", graders)}
    else:
        whole["grader"] = _with_headers(with_grader_url(grader, secrets.grader_url), secrets.grader_headers)
    return {**stored, "reinforcement": whole}


def _with_headers(endpoint: JsonObject, headers: dict[str, str] | None) -> JsonObject:
    return {**endpoint, "headers": {**headers}} if headers and endpoint.get("headers") else endpoint


def changed(method: JsonObject, change: EndpointsChange) -> ChangedMethod:
    """The whole method with the change in it. Raises BadRequest naming the change's field that cannot be made.

    Header values that are kept go where they went before: see `refuse_moved_secrets`.
    """
    reinforcement = cast("JsonObject", method["reinforcement"])
    old_tools = cast("list[JsonObject]", reinforcement.get("tools") or [])
    tools = _changed_tools(old_tools, change)
    old_grader = cast("JsonObject", reinforcement["grader"])
    grader = _changed_grader(old_grader, change)
    new: JsonObject = {**reinforcement, "grader": grader}
    if tools:
        new["tools"] = [*tools]
    pairs = zip(old_tools, tools, strict=True)
    return ChangedMethod(
        method=validated(Method, {**method, "reinforcement": new}),
        fields=tuple(_fields(change)),
        moved_tools=tuple(str(after["name"]) for before, after in pairs if _address(before) != _address(after)),
        has_moved_grader=_addresses(old_grader) != _addresses(grader),
    )


def _changed_tools(tools: list[JsonObject], change: EndpointsChange) -> list[JsonObject]:
    wanted = change.tools or {}
    known = [str(tool["name"]) for tool in tools]
    if (strange := next((name for name in wanted if name not in known), None)) is not None:
        names = ", ".join(known) or "none"
        message = f"The job has no tool '{strange}'. Its tools: {names}."
        raise BadRequest(message, param=f"tools.{strange}", code="tool_not_found")
    return [
        _applied(tool, wanted[name], f"tools.{name}") if (name := str(tool["name"])) in wanted else tool
        for tool in tools
    ]


def _changed_grader(grader: JsonObject, change: EndpointsChange) -> JsonObject:
    if change.grader is None:
        return grader
    parts = cast("JsonObject", grader.get("graders") or {})
    wanted = change.grader.graders or {}
    own = change.grader.model_fields_set - {"graders"}
    if own and grader["type"] != "endpoint":
        raise _no_endpoint("grader", grader)
    for name in wanted:
        part = parts.get(name)
        if not isinstance(part, dict):
            message = f"The job's grader has no part '{name}'."
            raise BadRequest(message, param=f"grader.graders.{name}", code="grader_not_found")
        if part["type"] != "endpoint":
            raise _no_endpoint(f"grader.graders.{name}", part)
    if own:
        return _applied(grader, change.grader, "grader")
    made: JsonObject = {
        name: _applied(cast("JsonObject", part), wanted[name], f"grader.graders.{name}") if name in wanted else part
        for name, part in parts.items()
    }
    return {**grader, "graders": made}


def _no_endpoint(param: str, grader: JsonObject) -> BadRequest:
    message = f"A grader of type '{grader['type']}' has neither a URL nor headers of its own."
    return BadRequest(message, param=param, code="grader_not_an_endpoint")


def _applied(old: JsonObject, change: BaseModel, param: str) -> JsonObject:
    """One endpoint with what is new of it. Raises BadRequest."""
    new: JsonObject = change.model_dump(mode="json", exclude_unset=True, exclude={"graders"})
    shown = cast("JsonObject", redacted(old))
    renamed = ("url", "server_url") if "server_url" in old and ("url" in new or "server_url" in new) else ()
    kept = {key: value for key, value in shown.items() if key not in renamed}
    if "server_url" in old and "url" in new:
        new["server_url"] = new.pop("url")
    wanted: JsonObject = {key: value for key, value in {**kept, **new}.items() if value is not None or key not in new}
    refuse_moved_secrets(wanted, old, param)
    whole = cast("JsonObject", with_stored_secrets(wanted, old))
    if "parameters" in old:
        whole["parameters"] = old["parameters"]  # A property called `headers` is no secret.
    told = ("headers", "server_url", "callback_url", "url")
    refuse_redacted({key: whole[key] for key in told if key in whole}, param)
    return whole


def _fields(change: EndpointsChange) -> Iterator[ChangedField]:
    for name, tool in (change.tools or {}).items():
        yield from _fields_of(tool, f"tools.{name}", f"tool '{name}'")
    if change.grader is not None:
        yield from _fields_of(change.grader, "grader", "the grader")
        for name, part in (change.grader.graders or {}).items():
            yield from _fields_of(part, f"grader.graders.{name}", f"grader '{name}'")


def _fields_of(change: BaseModel, path: str, whom: str) -> Iterator[ChangedField]:
    given = change.model_dump(exclude_unset=True, exclude={"graders"})
    for name, value in given.items():
        if name == "headers":
            description = (
                f"{whom} is called with the headers {', '.join(value)}" if value else f"{whom} is sent no headers"
            )
        elif value is None:
            description = f"{whom} is sent no callbacks"
        else:
            description = f"the {name} of {whom} is {redact_url(value)}"
        yield ChangedField(f"{path}.{name}", description)


def _address(tool: JsonObject) -> object:
    return tool.get("server_url")


def _addresses(grader: JsonObject) -> list[object]:
    parts = grader.get("graders")
    inner = [part.get("url") for part in parts.values() if isinstance(part, dict)] if isinstance(parts, dict) else []
    return [grader.get("url"), *inner]
