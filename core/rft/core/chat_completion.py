"""What servers of OpenAI's chat completions answer, read without trusting its shape. Pure."""

from collections.abc import Mapping

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.foreign_json import parse_json
from rft.core.grade import TokenUsage

_CONTEXT_PHRASES = ("context length", "context window", "context size", "maximum context", "prompt is too long")


def api_url(base_url: str, path: str) -> str:
    """Of one interface below a base URL, whose query stays behind it: some servers want their version there."""
    address, mark, query = base_url.partition("?")
    return f"{address.rstrip('/')}/{path}{mark}{query}"


def completions_url(base_url: str) -> str:
    """Where chat completions are asked for."""
    return api_url(base_url, "chat/completions")


def parse_object(body: bytes) -> JsonObject | None:
    """The JSON object of a body; None where it holds none."""
    try:
        parsed = parse_json(body)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def parse_completion(body: bytes) -> JsonObject | None:
    """The completion in a body; None for anything without a list of choices."""
    parsed = parse_object(body)
    return parsed if parsed is not None and isinstance(parsed.get("choices"), list) else None


def first_choice(completion: Mapping[str, JsonValue]) -> JsonObject:
    """Empty where there is none."""
    choices = completion.get("choices")
    return as_object(choices[0]) if isinstance(choices, list) and choices else {}


def text_of(content: JsonValue) -> str:
    """A message's content, whether it is a text or a list of parts."""
    if isinstance(content, list):
        parts = (as_object(part).get("text") for part in content)
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def read_usage(completion: Mapping[str, JsonValue]) -> TokenUsage:
    """The tokens a completion cost; zero where the server does not tell."""
    usage = as_object(completion.get("usage"))
    return TokenUsage(
        prompt_tokens=as_count(usage.get("prompt_tokens")),
        completion_tokens=as_count(usage.get("completion_tokens")),
        cached_tokens=as_count(as_object(usage.get("prompt_tokens_details")).get("cached_tokens")),
    )


def as_object(value: JsonValue) -> JsonObject:
    """The value, or an empty object in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_count(value: JsonValue) -> int:
    """The value, or 0 in place of anything that is no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def refusal_text(body: bytes) -> tuple[str, str, str]:
    """What a 4xx says: the error's own code or type, its param, its message; empty where there is none.

    A body of another shape is the message.
    """
    parsed = parse_object(body)
    error = {} if parsed is None else as_object(parsed.get("error")) or parsed
    code = error.get("code") or error.get("type")
    message = error.get("message")
    text = message if isinstance(message, str) else body.decode(errors="replace")
    return str(code or ""), str(error.get("param") or ""), text


def is_context_full(code: str, message: str) -> bool:
    """Whether a refusal says that the conversation is longer than the model's context."""
    return code == "context_length_exceeded" or any(phrase in message.lower() for phrase in _CONTEXT_PHRASES)
