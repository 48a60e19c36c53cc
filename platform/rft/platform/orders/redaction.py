"""What of an order is stored in the clear: all but header values, URLs' secrets, and what its name calls a secret."""

from collections.abc import Iterator
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.secret_urls import REDACTED, has_redacted, is_url_field, redact_url, with_urls_of
from rft.core.spec import RunSecrets
from rft.platform.orders.grader_specification import secrets_of_grader
from rft.platform.orders.method_urls import secret_urls_of
from rft.platform.orders.schemas import JobCreate, Method

_SECRET = frozenset({"headers", "authorization", "apikey", "xapikey", "token", "secret", "password"})
"""Names in lower case, dashes and underscores left out. Only `headers` is a field we know; the others are kept and
echoed as unknown ones, and whoever misspells a field still means its secret."""


def is_secret(name: str, value: JsonValue, within: str = "") -> bool:
    """Whether a field with this name is not to be shown. `within`: the field that holds it."""
    if within == "graders" and isinstance(value, dict) and "type" in value:
        return False  # A part of a multi grader has whatever name its formula calls it by.
    return name.lower().replace("_", "").replace("-", "") in _SECRET


def redacted(value: JsonValue, within: str = "") -> JsonValue:
    """The same document with every header value, URL's query value and secret redacted, however deep it lies."""
    match value:
        case dict():
            return {key: _shown(key, entry, within) for key, entry in value.items()}
        case list():
            return [redacted(entry) for entry in value]
        case _:
            return value


def _shown(key: str, value: JsonValue, within: str) -> JsonValue:
    if is_secret(key, value, within):
        return _redacted_value(value)
    return redact_url(value) if isinstance(value, str) and is_url_field(key) else redacted(value, key)


def _redacted_value(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _redacted_value(entry) for key, entry in value.items()}
        case list():
            return [_redacted_value(entry) for entry in value]
        case None:
            return None
        case _:
            return REDACTED


def redacted_paths(value: JsonValue, path: str = "", within: str = "") -> Iterator[str]:
    """Paths of the secrets that are redacted."""
    match value:
        case dict():
            for key, entry in value.items():
                here = f"{path}.{key}" if path else key
                if isinstance(entry, str) and is_url_field(key):
                    yield from (here,) if has_redacted(entry) else ()
                elif not is_secret(key, entry, within):
                    yield from redacted_paths(entry, here, key)
                elif _is_redacted(entry):
                    yield here
        case list():
            for index, entry in enumerate(value):
                yield from redacted_paths(entry, f"{path}[{index}]")
        case _:
            return


def _is_redacted(value: JsonValue) -> bool:
    match value:
        case dict():
            return any(_is_redacted(entry) for entry in value.values())
        case list():
            return any(_is_redacted(entry) for entry in value)
        case _:
            return value == REDACTED


def redacted_method(method: Method) -> JsonObject:
    """The method as the customer wrote it, redacted; hyperparameters and response_format filled with their defaults."""
    written = method.model_dump(mode="json", exclude_unset=True)
    reinforcement = written["reinforcement"]
    reinforcement["hyperparameters"] = method.reinforcement.hyperparameters.model_dump(mode="json")
    reinforcement.setdefault("response_format", None)
    return redacted_stored(written)


def redacted_stored(method: JsonObject) -> JsonObject:
    """The method as a document, redacted. What is redacted already stays as it is."""
    document = redacted(method)
    assert isinstance(document, dict), "redacting keeps the shape"
    return _with_schemas(document, method)


def redacted_request(body: JobCreate) -> JsonObject:
    """The whole order, redacted."""
    written = body.model_dump(mode="json", exclude_unset=True)
    document = redacted(written)
    assert isinstance(document, dict), "redacting keeps the shape"
    return {**document, "method": _with_schemas(cast(JsonObject, document["method"]), written["method"])}


def _with_schemas(method: JsonObject, written: JsonObject) -> JsonObject:
    """The redacted method with its JSON Schemas as they were: a property called `headers` is no secret."""
    shown, order = cast(JsonObject, method["reinforcement"]), cast(JsonObject, written["reinforcement"])
    if "response_format" in order:
        shown["response_format"] = order["response_format"]
    tools = cast("list[JsonObject]", shown.get("tools") or [])
    for tool, original in zip(tools, cast("list[JsonObject]", order.get("tools") or []), strict=True):
        if "parameters" in original:
            tool["parameters"] = original["parameters"]
    return method


def secrets_of(method: Method) -> RunSecrets:
    """The header values and the URLs with secrets, to be sealed."""
    reinforcement = method.reinforcement
    tool_headers = {tool.name: tool.headers for tool in reinforcement.tools or [] if tool.headers}
    headers = secrets_of_grader(reinforcement.grader).model_copy(update={"tool_headers": tool_headers})
    return with_urls_of(headers, secret_urls_of(method.model_dump(mode="json", exclude_unset=True)))
