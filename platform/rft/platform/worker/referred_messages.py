"""Messages that an item of an eval brings, in the shapes that the SDK has for chats, eval items and responses."""

from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset_fields import RowError, read_message
from rft.core.messages import Message, Role
from rft.platform.api.errors import BadRequest
from rft.platform.evals.item_variables import item_path, value_at
from rft.platform.evals.verdicts import NoVerdict
from rft.platform.serving.responses.items import read_items

_ITEMS = ("function_call", "function_call_output", "reasoning")
"""Types that only the items of responses have."""


def referred_messages(item: JsonObject, reference: str) -> tuple[Message, ...] | NoVerdict:
    """The messages, or why there are none."""
    value = value_at(item, item_path(reference))
    if isinstance(value, str):
        return (Message(role=Role.USER, content=value),)
    if not isinstance(value, list) or not value:
        return _no_verdict(f"{reference} of the item: is neither a text nor a list of messages.")
    try:
        return _read([_with_text_parts(each) for each in value])
    except RowError as error:
        return _no_verdict(f"{reference}{error.path} of the item: {error.reason}.")
    except BadRequest as error:
        return _no_verdict(f"{reference} of the item, as input of a response: {error.message}")


def _no_verdict(message: str) -> NoVerdict:
    return NoVerdict("invalid_input_messages", message)


def _read(values: Sequence[JsonValue]) -> tuple[Message, ...]:
    if any(isinstance(each, dict) and each.get("type") in _ITEMS for each in values):
        return tuple(read_items(values, None).messages)
    return tuple(read_message(each, f"[{at}]", allows_system=True) for at, each in enumerate(values))


def _with_text_parts(value: JsonValue) -> JsonValue:
    """The content as text parts; it may be one part alone, a bare text, input text or output text."""
    if not isinstance(value, dict) or value.get("type", "message") != "message":
        return value
    content = value.get("content")
    match content:
        case dict():
            parts = [_as_text_part(content)]
        case list():
            parts = [_as_text_part(part) for part in content]
        case _:
            return value
    return cast("JsonObject", value | {"content": parts})


def _as_text_part(part: JsonValue) -> JsonValue:
    match part:
        case str():
            return {"type": "text", "text": part}
        case {"type": "input_text" | "output_text", "text": text}:
            return {"type": "text", "text": text}
        case _:
            return part
