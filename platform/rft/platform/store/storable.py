"""Text as Postgres can hold it: neither `text` nor `jsonb` stores the NUL character a model or a tool may write."""

import re

_NUL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def storable_text(text: str) -> str:
    """`text` with NUL shown as the replacement character."""
    return text.replace("\x00", "\ufffd")


def storable_json(document: str) -> str:
    """A JSON document with escaped NULs shown as the replacement character."""
    return _NUL_ESCAPE.sub(r"\1\\ufffd", document) if "\\u0000" in document else document


def storable_json_bytes(document: bytes) -> bytes:
    """The same of a document that is not decoded yet."""
    return storable_json(document.decode()).encode() if b"\\u0000" in document else document
