"""What of an order is stored in the clear: everything but header values."""

from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.spec import RunSecrets
from rft.platform.graders.specification import secrets_of_grader
from rft.platform.jobs.schemas import JobCreate, Method
from rft.platform.tools.fields import MASK


def masked(value: JsonValue) -> JsonValue:
    """The same document with the values of every `headers` object blotted out, however deep it lies."""
    match value:
        case dict():
            return {key: _masked_headers(entry) if key == "headers" else masked(entry) for key, entry in value.items()}
        case list():
            return [masked(entry) for entry in value]
        case _:
            return value


def _masked_headers(headers: JsonValue) -> JsonValue:
    return dict.fromkeys(headers, MASK) if isinstance(headers, dict) else masked(headers)


def masked_method(method: Method) -> JsonObject:
    """The method as the customer wrote it, masked; hyperparameters and response_format filled with their defaults."""
    written = method.model_dump(mode="json", exclude_unset=True)
    reinforcement = written["reinforcement"]
    reinforcement["hyperparameters"] = method.reinforcement.hyperparameters.model_dump(mode="json")
    reinforcement.setdefault("response_format", None)
    document = masked(written)
    assert isinstance(document, dict), "masking keeps the shape"
    return _with_schemas(document, written)


def masked_request(body: JobCreate) -> JsonObject:
    """The whole order, masked."""
    written = body.model_dump(mode="json", exclude_unset=True)
    document = masked(written)
    assert isinstance(document, dict), "masking keeps the shape"
    return {**document, "method": _with_schemas(cast(JsonObject, document["method"]), written["method"])}


def _with_schemas(method: JsonObject, written: JsonObject) -> JsonObject:
    """The masked method with its JSON Schemas as they were: a property called `headers` is no secret."""
    shown, order = cast(JsonObject, method["reinforcement"]), cast(JsonObject, written["reinforcement"])
    if "response_format" in order:
        shown["response_format"] = order["response_format"]
    tools = cast("list[JsonObject]", shown.get("tools") or [])
    for tool, original in zip(tools, cast("list[JsonObject]", order.get("tools") or []), strict=True):
        if "parameters" in original:
            tool["parameters"] = original["parameters"]
    return method


def secrets_of(method: Method) -> RunSecrets:
    """The header values, to be sealed."""
    reinforcement = method.reinforcement
    tool_headers = {tool.name: tool.headers for tool in reinforcement.tools or [] if tool.headers}
    return secrets_of_grader(reinforcement.grader).model_copy(update={"tool_headers": tool_headers})
