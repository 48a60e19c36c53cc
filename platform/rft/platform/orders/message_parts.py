"""Graders as they are written: bearable in length, the parts of a multi grader an object or a list."""

from typing import Any

from pydantic_core import PydanticCustomError

from rft.grader_gateway.builtin.python_source import MAX_SOURCE_BYTES, source_bytes
from rft.platform.api.wire import refused_at, text_chars

MAX_PARTS = 64
MAX_TEXT_CHARS = 1 << 19
"""Of graders that are ordered together, or one. Templates are read on the event loop, several times."""


def refuse_long_texts(written: Any) -> Any:
    """Before any of it is read: a grader, graders or messages to a judge with more text than that."""
    if text_chars(written) > MAX_TEXT_CHARS:
        message = "is too long: all its texts may have {most} characters together"
        raise PydanticCustomError("invalid_value", message, {"most": f"{MAX_TEXT_CHARS:,}"})
    return written


def by_name(graders: Any) -> Any:
    """A list of named graders is taken as the dictionary it stands for."""
    if isinstance(graders, dict) and isinstance(graders.get("type"), str):
        raise PydanticCustomError("invalid_value", "must be an object of graders by name; this is one bare grader")
    if not isinstance(graders, list):
        return graders
    named: dict[str, Any] = {}
    for index, grader in enumerate(graders):
        name = grader.get("name") if isinstance(grader, dict) else None
        if not isinstance(name, str):
            raise refused_at((index, "name"), "each grader of a list needs a name")
        if name in named:
            raise refused_at((index, "name"), f"grader names must differ; '{name}' appears twice")
        named[name] = grader
    return named


def refuse_too_many(graders: Any) -> Any:
    """Before each is looked at, and each that is none has an error of its own."""
    if isinstance(graders, dict | list) and len(graders) > MAX_PARTS:
        message = "must be {most} graders at most, not {count}"
        raise PydanticCustomError("too_long", message, {"most": MAX_PARTS, "count": len(graders)})
    return graders


def refuse_long_together(graders: Any) -> Any:
    """Their sources are read one after the other: together they may be as long as one."""
    if not isinstance(graders, dict):
        return graders
    total = 0
    for name, grader in graders.items():
        source = grader.get("source") if isinstance(grader, dict) else getattr(grader, "source", None)
        total += source_bytes(source) if isinstance(source, str) else 0
        if total > MAX_SOURCE_BYTES:
            cap = f"{MAX_SOURCE_BYTES // 1024} kB"
            message = f"longer than {cap}, with those before it: all sources of a grader have {cap} together"
            raise refused_at((name, "source"), message)
    return graders


def dict_or_list(schema: dict[str, Any]) -> None:
    """Tells the document of the list, too, and of the names."""
    name = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"}
    as_object = schema["properties"]["graders"]
    as_object["propertyNames"] = name
    named = {"allOf": [as_object["additionalProperties"], {"required": ["name"], "properties": {"name": name}}]}
    as_list = {"type": "array", "items": named, "minItems": 1, "maxItems": MAX_PARTS}
    about = {key: as_object.pop(key) for key in ("title", "description") if key in as_object}
    schema["properties"]["graders"] = {"anyOf": [as_object, as_list], **about}
