"""Texts that stand in parts, as chats and responses write them."""

from pydantic import JsonValue


def text_of_parts(content: JsonValue) -> str | None:
    """The content of a message as one text; None where it is none."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [_text_of(part) for part in content]
    return "".join(text for text in texts if text is not None) if None not in texts else None


def _text_of(part: JsonValue) -> str | None:
    match part:
        case str():
            return part
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return text
        case {"type": "refusal"}:  # In a chat it stands beside an empty content.
            return ""
        case _:
            return None
