"""From a request's body to what the serving process is asked. Pure, but for the seed of a request that has none."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue

from rft.core.dataset_fields import RowError, read_tools
from rft.core.messages import Message, Role, ToolSchema
from rft.platform.orders.response_format import to_response_format
from rft.platform.serving.order import EFFORTS
from rft.platform.serving.refused import refused
from rft.platform.serving.responses.items import ReadInput, read_items
from rft.platform.serving.responses.schemas import SEALED_TURNS, ResponseBody
from rft.platform.serving.responses.sealed_turns import TurnSeal
from rft.platform.serving.tool_choice import to_chosen_tools
from rft.platform.serving.unread_fields import refuse_unless_nothing, refuse_unread
from rft.serving_wire.records import AdapterRef, CompletionRequest

_STATELESS = (
    "responses are not stored here; send the items of the conversation back in 'input', with"
    f" include=['{SEALED_TURNS}'] for the tokens as they were sampled"
)
_REFUSED = {
    "previous_response_id": f"is not supported: {_STATELESS}",
    "conversation": f"is not supported: {_STATELESS}",
    "background": f"is not supported: {_STATELESS}",
    "prompt": "is not supported: prompts are not stored here",
    "context_management": "is not supported: nothing is left out of a conversation",
    "moderation": "is not supported",
    "image": "is not supported: models here read and write text",
}
"""Fields of the original, where they ask for something."""
_OTHER_NAMES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning",
    "response_format": "text",
}
"""Of fields, in chat completions."""
_OF_CHAT = "is a field of /v1/chat/completions alone"
_UNREAD: dict[str, tuple[str, Sequence[JsonValue]]] = {
    "stop": (_OF_CHAT, ([],)),
    "n": (_OF_CHAT, (1,)),
    "logprobs": (_OF_CHAT, (False,)),
    "logit_bias": ("is not supported", ({},)),
    **dict.fromkeys(("frequency_penalty", "presence_penalty"), ("is not supported", (0,))),
}


@dataclass(frozen=True, slots=True)
class ResponseOrder:
    """What is asked, and what the reply repeats."""

    request: CompletionRequest
    """Without the token."""
    read: ReadInput
    tools: tuple[ToolSchema, ...]
    """All that were described."""
    has_sealed_turns: bool


def to_response_order(body: ResponseBody, adapter: AdapterRef | None, seal: TurnSeal) -> ResponseOrder:
    """Raises BadRequest, which names the field."""
    _refuse_what_is_not_there(body)
    tools = _tools(body)
    chosen = to_chosen_tools(body.tool_choice, tools)
    items: list[JsonValue] = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    read = read_items(items, seal)
    instructions = () if body.instructions is None else (Message(role=Role.DEVELOPER, content=body.instructions),)
    effort = None if body.reasoning is None else body.reasoning.effort
    has_sealed_turns = SEALED_TURNS in (body.include or ())
    before = len(instructions)
    request = CompletionRequest(
        token="",
        model=body.model,
        adapter=adapter,
        messages=(*instructions, *read.messages),
        tools=chosen.told,
        forced_calls=chosen.forced,
        seed=secrets.randbits(63) if body.seed is None else body.seed % 2**63,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        max_tokens=body.max_output_tokens,
        reasoning_effort=None if effort is None else EFFORTS.get(effort, effort),
        response_format=None if body.text is None else to_response_format(body.text.format),
        has_parallel_calls=body.parallel_tool_calls is not False,
        is_streamed=bool(body.stream),
        sampled_turns={before + index: turn for index, turn in read.sampled_turns.items()},
        keeps_turns=has_sealed_turns,
    )
    return ResponseOrder(request, _moved(read, before), tools, has_sealed_turns)


def _moved(read: ReadInput, before: int) -> ReadInput:
    """With the places that messages have behind the instructions."""
    reasoning_ids = {before + index: item_id for index, item_id in read.reasoning_ids.items()}
    return ReadInput(reasoning_ids=reasoning_ids, transformations=read.transformations)


def _refuse_what_is_not_there(body: ResponseBody) -> None:
    extra = body.model_extra or {}
    for name, why in _REFUSED.items():
        if extra.get(name):
            raise refused(name, why)
    if body.store:
        raise refused("store", f"must be false: {_STATELESS}")
    if body.truncation == "auto":
        raise refused("truncation", "must be 'disabled': nothing is left out of a conversation")
    if extra.get("top_logprobs"):
        raise refused("top_logprobs", "must be 0: log-probabilities are told by /v1/chat/completions")
    for place, name in enumerate(body.include or ()):
        if name != SEALED_TURNS:
            raise refused(f"include[{place}]", f"can only be '{SEALED_TURNS}'")
    why = "can only be 'medium': models here have no switch for it"
    refuse_unless_nothing("text.verbosity", _extra(body.text, "verbosity"), why, ("medium",))
    refuse_unless_nothing("reasoning.mode", _extra(body.reasoning, "mode"), "can only be 'standard'", ("standard",))
    refuse_unread(body, unread=_UNREAD, other_names=_OTHER_NAMES)


def _extra(part: BaseModel | None, name: str) -> JsonValue:
    """A field that the part of the body does not know."""
    return None if part is None else (part.model_extra or {}).get(name)


def _tools(body: ResponseBody) -> tuple[ToolSchema, ...]:
    for place, tool in enumerate(body.tools or ()):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind != "function":
            why = "no tools are built in; describe functions, and your code runs them"
            raise refused(f"tools[{place}].type", f"must be 'function', this is {kind!r}: {why}")
    try:
        return read_tools({"tools": body.tools})
    except RowError as error:
        raise refused(error.path, error.reason) from error
