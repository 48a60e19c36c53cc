"""The URLs with secrets of a job's method: out of the document that is stored, and back into it."""

from collections.abc import Iterator
from typing import cast

from rft.core.base import JsonObject
from rft.core.secret_urls import secret_url
from rft.core.spec import RunSecrets


def secret_urls_of(method: JsonObject) -> RunSecrets:
    """The whole URLs that hold secrets, and no other secret. None of a method that is redacted already."""
    tools = {str(tool["name"]): tool for tool in _tools(method)}
    grader = cast("JsonObject", cast("JsonObject", method["reinforcement"])["grader"])
    parts = {name: part for name, part in _parts(grader).items() if part.get("type") == "endpoint"}
    return RunSecrets(
        tool_urls=_secret_ones(tools, "server_url"),
        callback_urls=_secret_ones(tools, "callback_url"),
        grader_url=_secret_one(grader, "url") if grader.get("type") == "endpoint" else None,
        part_urls=_secret_ones(parts, "url"),
    )


def with_tool_urls(tool: JsonObject, secrets: RunSecrets) -> JsonObject:
    """A tool with its whole URLs, under whichever names it was given."""
    name = str(tool["name"])
    url, callback_url = secrets.tool_urls.get(name), secrets.callback_urls.get(name)
    whole = {key: url for key in ("server_url", "url") if url is not None and tool.get(key) is not None}
    if callback_url is not None and tool.get("callback_url") is not None:
        whole["callback_url"] = callback_url
    return {**tool, **whole}


def with_grader_url(grader: JsonObject, url: str | None) -> JsonObject:
    """A grader with its whole URL."""
    return grader if url is None or grader.get("url") is None else {**grader, "url": url}


def _tools(method: JsonObject) -> Iterator[JsonObject]:
    yield from cast("list[JsonObject]", cast("JsonObject", method["reinforcement"]).get("tools") or [])


def _parts(grader: JsonObject) -> dict[str, JsonObject]:
    return cast("dict[str, JsonObject]", grader.get("graders") or {}) if grader.get("type") == "multi" else {}


def _secret_ones(endpoints: dict[str, JsonObject], field: str) -> dict[str, str]:
    found = {name: _secret_one(endpoint, field) for name, endpoint in endpoints.items()}
    return {name: url for name, url in found.items() if url is not None}


def _secret_one(endpoint: JsonObject, field: str) -> str | None:
    url = endpoint.get(field)
    return secret_url(url) if isinstance(url, str) else None
