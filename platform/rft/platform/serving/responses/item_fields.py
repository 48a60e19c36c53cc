"""Fields of input items."""

from collections.abc import Sequence

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset_fields import kind_of
from rft.platform.serving.refused import refused

_TEXTS = ("input_text", "output_text", "text")
_NO_TEXT = {
    "input_image": "images are not supported: models here read text",
    "input_file": "files are not supported: models here read text",
    "input_audio": "audio is not supported: models here read text",
}


def optional_text(item: JsonObject, name: str, path: str) -> str | None:
    """Raises BadRequest."""
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise refused(f"{path}.{name}", f"must be a string, this is {kind_of(value)}")
    return value


def required_text(item: JsonObject, name: str, path: str, *, is_filled: bool = True) -> str:
    """Raises BadRequest."""
    value = optional_text(item, name, path)
    if value is None:
        raise refused(f"{path}.{name}", "is missing")
    if is_filled and not value:
        raise refused(f"{path}.{name}", "must not be empty")
    return value


def item_text(value: JsonValue, path: str, *, kind: str | None = None) -> str:
    """Of a string or a list of parts. `kind`: the only one of parts. Raises BadRequest."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise refused(path, f"must be a string or a list of text parts, this is {kind_of(value)}")
    return "".join(_part(part, f"{path}[{i}]", _TEXTS if kind is None else (kind,)) for i, part in enumerate(value))


def _part(part: JsonValue, path: str, kinds: Sequence[str]) -> str:
    if not isinstance(part, dict):
        raise refused(path, f"must be an object, this is {kind_of(part)}")
    found = part.get("type")
    if found == "refusal" and "output_text" in kinds:
        return required_text(part, "refusal", path, is_filled=False)
    if found not in kinds:
        why = _NO_TEXT.get(found) if isinstance(found, str) else None
        raise refused(f"{path}.type", why or f"must be one of {', '.join(kinds)}; this is {found!r}")
    return required_text(part, "text", path, is_filled=False)
