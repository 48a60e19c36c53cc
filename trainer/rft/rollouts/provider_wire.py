"""A turn as OpenAI's chat completions have it: what a provider is sent, and what its answer comes to. Pure."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import JsonValue

from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, split_thinking
from rft.core.base import JsonObject
from rft.core.chat_completion import (
    as_count,
    as_object,
    first_choice,
    is_context_full,
    parse_completion,
    parse_object,
    refusal_text,
    text_of,
)
from rft.core.foreign_json import encodable
from rft.core.messages import Message, Role, ToolCall, ToolSchema, in_order_of_calls
from rft.core.response_format import ResponseFormat
from rft.rollouts.chat_policy import ChatFinish, ChatRequest, ChatTurn, ChatUsage

OmittableField = Literal["temperature", "top_p", "seed", "max_tokens", "reasoning_effort"]
"""Fields of a request that some models refuse."""
OMITTABLE: tuple[str, ...] = get_args(OmittableField)
CONTENT_FILTER = "content_filter"
"""`Failure.detail` of a turn that the provider's filter cut or refused: not what the model would have said."""

_STOPPED = frozenset(
    {"stop", "tool_calls", "function_call", "stop_sequence", "eos", "eos_token", "end_turn", "tool_use"}
)
_CALLING = frozenset({"tool_calls", "function_call", "tool_use"})
_CUT = frozenset({"length", "max_tokens", "model_length"})
_SEEDS = 2**31
"""Some servers take no larger ones."""
_NO_MODEL_PHRASES = ("valid model", "unknown model", "model not found", "no such model")
_UNREADABLE_NAME = "unreadable"


@dataclass(frozen=True, slots=True)
class NoTurn:
    """Why an answer holds no turn, as the end of a sentence that begins with the provider."""

    message: str
    usage: ChatUsage | None
    """What it took all the same; None where the server does not tell."""
    is_filtered: bool = False


def to_wire(request: ChatRequest, *, model: str, omitted: Collection[str], max_tokens_field: str) -> JsonObject:
    """The body of the request. `omitted`: fields that are left to the provider."""
    sampling = request.sampling
    wanted: JsonObject = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": None if sampling.seed is None else sampling.seed % _SEEDS,
        "max_tokens": sampling.max_tokens,
        "reasoning_effort": sampling.reasoning_effort,
    }
    messages: list[JsonValue] = [_message(message) for message in in_order_of_calls(request.messages)]
    body: JsonObject = {"model": model, "messages": messages}
    for name, value in wanted.items():
        if value is not None and name not in omitted:
            body[max_tokens_field if name == "max_tokens" else name] = value
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if sampling.response_format is not None:
        body["response_format"] = _response_format(sampling.response_format)
    return body


def _message(message: Message) -> JsonObject:
    match message.role:
        case Role.TOOL:
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
        case Role.ASSISTANT if message.tool_calls:
            calls: list[JsonValue] = [_call(call) for call in message.tool_calls]
            return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
        case Role.DEVELOPER:
            # Few open models' templates know it, and the servers that do take `system` for it.
            return {"role": "system", "content": message.content}
        case Role.SYSTEM | Role.USER | Role.ASSISTANT:
            return {"role": message.role, "content": message.content}


def _call(call: ToolCall) -> JsonObject:
    function: JsonObject = {"name": call.name or _UNREADABLE_NAME, "arguments": _sent_back(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _sent_back(arguments: str) -> str:
    """As the model wrote them. What is no JSON object is wrapped: servers that read arguments would refuse the whole
    conversation for it."""
    if parse_object(arguments.encode(errors="replace")) is not None:
        return arguments
    return json.dumps({"unreadable_arguments": arguments})


def _tool(tool: ToolSchema) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _response_format(wanted: ResponseFormat) -> JsonObject:
    if wanted.type == "json_object" or wanted.json_schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": wanted.json_schema}}


def read_turn(body: bytes, *, turn: int) -> ChatTurn | NoTurn:
    """The turn in the body of a 2xx. Nothing that is not certainly one is taken for an answer."""
    completion = parse_completion(body)
    if completion is None:
        return _no_completion(body)
    usage = _usage(completion)
    choice = first_choice(completion)
    raw_message = choice.get("message")
    if not isinstance(raw_message, dict):
        return NoTurn("answered a completion without a choice that has a message", usage)
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return NoTurn("cut the turn by its content filter", usage, is_filtered=True)
    finish = _finish_of(reason)
    if finish is None:
        return NoTurn(f"ended the turn for a reason that is not known: {str(reason)[:40]!r}", usage)
    calls = _calls(raw_message.get("tool_calls"), turn)
    if reason in _CALLING and not calls:
        return NoTurn("says that the model calls tools, and tells no call", usage)
    said = _Said.of(raw_message)
    if not (said.content or said.reasoning or calls) and not _has_tokens(finish, usage):
        return NoTurn("answered a turn without a single token", usage)
    model = completion.get("model")
    return ChatTurn(
        content=said.content,
        finish_reason=finish,
        reasoning=said.reasoning,
        tool_calls=calls,
        usage=usage,
        model=encodable(model) if isinstance(model, str) else "",
    )


def _has_tokens(finish: ChatFinish, usage: ChatUsage | None) -> bool:
    """Whether tokens were sampled though none is shown: a turn that ran out of them says so without their number."""
    return finish is ChatFinish.LENGTH if usage is None else usage.completion_tokens > 0


def _no_completion(body: bytes) -> NoTurn:
    """No model answered, as far as anybody can tell: where no tokens are told there were none."""
    parsed = parse_object(body) or {}
    usage, error = _usage(parsed) or ChatUsage(), parsed.get("error")
    if error:
        message = as_object(error).get("message", error)
        return NoTurn(f"answered 200 with an error: {encodable(str(message))[:200]}", usage)
    return NoTurn("answered something that is no chat completion", usage)


def _refused(content: JsonValue) -> str:
    """What is a refusal among the parts of a content."""
    parts = content if isinstance(content, list) else []
    return "".join(part for part in (as_object(one).get("refusal") for one in parts) if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class _Said:
    content: str
    reasoning: str

    @classmethod
    def of(cls, message: Mapping[str, JsonValue]) -> "_Said":
        """A refusal is an answer, too. Servers that split no thoughts off leave them in the text, as a policy's own."""
        content, refusal = text_of(message.get("content")), message.get("refusal") or _refused(message.get("content"))
        if not content and isinstance(refusal, str):
            content = refusal
        reasoning = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
        if not reasoning and (content.lstrip().startswith(THINK_OPEN) or THINK_CLOSE in content):
            reasoning, content = split_thinking(content)
            content = content.lstrip()
        return cls(encodable(content), encodable(reasoning))


def _finish_of(reason: JsonValue) -> ChatFinish | None:
    if reason in _STOPPED:
        return ChatFinish.STOP
    return ChatFinish.LENGTH if reason in _CUT else None


def _calls(raw: JsonValue, turn: int) -> tuple[ToolCall, ...]:
    """All calls; one that is none in the wire's shape has no name. Each has an id, unlike the others' of its turn."""
    calls: list[ToolCall] = []
    for position, entry in enumerate(raw if isinstance(raw, list) else []):
        call = as_object(entry)
        call_id = call.get("id")
        is_usable = isinstance(call_id, str) and call_id and call_id not in {known.call_id for known in calls}
        name, arguments = _function(as_object(call.get("function")))
        own_id = encodable(str(call_id)) if is_usable else f"call_{turn}_{position}"
        calls.append(ToolCall(call_id=own_id, name=name, arguments=arguments))
    return tuple(calls)


def _function(function: JsonObject) -> tuple[str, str]:
    """Name and arguments; without a name where it cannot be read. Some servers send arguments as an object, and no or
    empty ones where a tool takes none."""
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments)
    if arguments is None or arguments == "":
        arguments = "{}"
    if not isinstance(name, str) or not isinstance(arguments, str):
        return "", json.dumps(function)
    return encodable(name), encodable(arguments)


def _usage(completion: Mapping[str, JsonValue]) -> ChatUsage | None:
    """None where the server does not tell."""
    usage = completion.get("usage")
    if not isinstance(usage, dict) or not isinstance(usage.get("completion_tokens"), int):
        return None
    return ChatUsage(
        prompt_tokens=as_count(usage.get("prompt_tokens")),
        cached_tokens=as_count(as_object(usage.get("prompt_tokens_details")).get("cached_tokens")),
        completion_tokens=as_count(usage.get("completion_tokens")),
        reasoning_tokens=as_count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a provider says with a 4xx."""

    code: str
    """The error's own code or type; empty where it has none."""
    param: str
    message: str

    @classmethod
    def of(cls, body: bytes) -> "Refusal":
        """Of any body."""
        return cls(*refusal_text(body))

    @property
    def is_context_full(self) -> bool:
        """The conversation is longer than the model's context."""
        return is_context_full(self.code, self.message)

    @property
    def is_filtered(self) -> bool:
        """The provider's filter stopped it."""
        return self.code == CONTENT_FILTER or "content management policy" in self.message.lower()

    @property
    def is_about_model(self) -> bool:
        """There is no such model."""
        text = self.message.lower()
        is_said = any(phrase in text for phrase in _NO_MODEL_PHRASES) or ("model" in text and "not exist" in text)
        return "model_not_found" in self.code or self.param == "model" or is_said


def advice_on(refusal: Refusal) -> str:
    """What to change where a field is refused that can be left out; empty where nothing is known."""
    named = {"max_completion_tokens": "max_tokens"}.get(refusal.param, refusal.param)
    if named not in OMITTABLE:
        return ""
    return f" (a model that does not take it: name `{named}` in the provider's `omit_fields`)"
