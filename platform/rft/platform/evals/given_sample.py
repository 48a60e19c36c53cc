"""Samples that items bring along, as graders see them. Pure."""

import json
from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset_fields import RowError, read_message
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import Message, Role, ToolCall
from rft.core.text_parts import text_of_parts
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
    prompt, earlier = _prompt(given), _earlier(given)
    answer = Message(
        role=Role.ASSISTANT,
        content=_text(given),
        reasoning_content=_reasoning(given),
        tool_calls=_calls(given, is_alone=not earlier),
    )
    finish, model = given.get("finish_reason", _finish_of_choice(given)), given.get("model")
    return FinishedTrace(
        messages=(*prompt, *earlier, answer),
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
        if not isinstance(text := given["output_text"], str):
            raise BadSample("output_text must be a text")
        return text
    content = _answering(given).get("content")
    if content is None:
        return json.dumps(given["output_json"], ensure_ascii=False) if "output_json" in given else ""
    text = text_of_parts(content)
    if text is None:
        raise BadSample("the answer's content must be a text or parts of one")
    return text


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


def _finish_of_choice(given: JsonObject) -> JsonValue:
    match given.get("choices"):
        case [{"finish_reason": finish}, *_]:
            return cast("JsonValue", finish)
        case _:
            return None


def _answering(given: JsonObject) -> JsonObject:
    return _message_of_choice(given) or _last_output(given) or {}


def _reasoning(given: JsonObject) -> str:
    try:
        thought = _answering(given).get("reasoning_content")
    except BadSample:  # The answer itself may stand elsewhere.
        return ""
    return thought if isinstance(thought, str) else ""


def _calls(given: JsonObject, *, is_alone: bool) -> tuple[ToolCall, ...]:
    """Of the answer; `output_tools` are those of all messages, and so its own where it `is_alone`."""
    raw = given.get("output_tools") if is_alone else (_last_output(given) or {}).get("tool_calls")
    if is_alone and raw is None:
        raw = _answering(given).get("tool_calls")
    try:
        message = read_message({"role": "assistant", "content": "", "tool_calls": raw}, "sample")
    except RowError as error:
        raise BadSample(f"output_tools: {error.reason}") from error
    return message.tool_calls


def _prompt(given: JsonObject) -> tuple[Message, ...]:
    """What the model was asked, where the sample tells it in a shape that is known: for reading only."""
    raw = given.get("input")
    return _readable(raw) if isinstance(raw, list) else ()


def _earlier(given: JsonObject) -> tuple[Message, ...]:
    """What the model and its tools said before the answer, in the same way."""
    match given.get("output"):
        case [*before, {"role": "assistant"}]:
            return _readable(before)
        case _:
            return ()


def _readable(raw: Sequence[JsonValue]) -> tuple[Message, ...]:
    try:
        return tuple(read_message(_in_one_text(value), "", allows_system=True) for value in raw)
    except RowError:
        return ()


def _in_one_text(message: JsonValue) -> JsonValue:
    """Its content, where it is a text in parts of any kind."""
    if not isinstance(message, dict) or (text := text_of_parts(message.get("content"))) is None:
        return message
    return {**message, "content": text}
