"""Samples that items bring along, as graders see them. Pure."""

import json
from typing import cast

from rft.core.base import JsonObject
from rft.core.dataset_fields import RowError, read_message
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import Message, Role, ToolCall
from rft.grader_gateway.contract import is_document

_ANSWERS = ("output_text", "output_json", "output_tools", "choices", "output")
"""Fields that hold what a model answered; `output` is the hosted service's own, in its output items."""
NOTHING_SAMPLED: JsonObject = {"output_text": None, "output_json": None, "output_tools": [], "choices": []}
"""What code and endpoints see where there is no sample: nothing that could be taken for an empty answer."""


class BadSample(ValueError):
    """A sample that cannot be graded as it stands; the message says why."""


def has_answer(sample: JsonObject | None) -> bool:
    """Whether a sample holds anything that a model said, if only an empty text."""
    return any((sample or {}).get(name) not in (None, []) for name in _ANSWERS)


def given_trace(sample: JsonObject | None) -> FinishedTrace:
    """The sample as a finished conversation; its own fields count before what follows from it. Raises BadSample."""
    given: JsonObject = {name: value for name, value in (sample or {}).items() if value is not None}
    if (error := _error_in(given)) is not None:
        raise BadSample(f"it tells of an error in place of an answer ({error})")
    if not has_answer(sample):
        return FinishedTrace((), 0, "stop", "", given=given | NOTHING_SAMPLED)
    prompt = _prompt(given)
    answer = Message(role=Role.ASSISTANT, content=_text(given), tool_calls=_calls(given))
    finish, model = given.get("finish_reason"), given.get("model")
    return FinishedTrace(
        messages=(*prompt, answer),
        prompt_messages=len(prompt),
        finish_reason=finish if isinstance(finish, str) else "stop",
        model=model if isinstance(model, str) else "",
        has_json=is_document(answer.content),
        given={name: value for name, value in given.items() if name not in ("input", "output", "trace")},
    )


def _error_in(given: JsonObject) -> str | None:
    """What an error says; the hosted service has it as an object, whose texts are empty where all went well."""
    error = given.pop("error", None)
    if isinstance(error, dict):
        error = error.get("message") or error.get("code")
    return str(error)[:200] if error else None


def _text(given: JsonObject) -> str:
    if "output_text" in given:
        return _as_text(given["output_text"], "output_text")
    message = _message_of_choice(given) or _last_output(given)
    content = None if message is None else message.get("content")
    if content is not None:
        return _as_text(content, "the answer's content")
    return json.dumps(given["output_json"], ensure_ascii=False) if "output_json" in given else ""


def _as_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise BadSample(f"{name} must be a text")
    return value


def _message_of_choice(given: JsonObject) -> JsonObject | None:
    match given.get("choices"):
        case None | []:
            return None
        case [{"message": dict(message)}, *_]:
            return cast("JsonObject", message)
        case _:
            raise BadSample("choices must hold objects with a message")


def _last_output(given: JsonObject) -> JsonObject | None:
    match given.get("output"):
        case None | []:
            return None
        case [*_, {"role": "assistant"} as message]:
            return cast("JsonObject", message)
        case _:
            raise BadSample("output must end with a message of the assistant")


def _calls(given: JsonObject) -> tuple[ToolCall, ...]:
    raw = given.get("output_tools")
    if raw is None:
        message = _message_of_choice(given) or _last_output(given) or {}
        raw = message.get("tool_calls")
    try:
        message = read_message({"role": "assistant", "content": "", "tool_calls": raw}, "sample")
    except RowError as error:
        raise BadSample(f"output_tools: {error.reason}") from error
    return message.tool_calls


def _prompt(given: JsonObject) -> tuple[Message, ...]:
    """What the model was asked, where the sample tells it in a shape that is known: for reading only."""
    raw = given.get("input")
    if not isinstance(raw, list):
        return ()
    try:
        return tuple(read_message(value, f"input[{index}]", allows_system=True) for index, value in enumerate(raw))
    except RowError:
        return ()
