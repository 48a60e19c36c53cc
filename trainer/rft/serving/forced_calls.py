"""Turns that have to call a tool: which do, and what holds a sample to it."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock

from rft.chat.call_grammar import CallShape, call_shape
from rft.chat.errors import ChatTemplateError
from rft.chat.grammar import GrammarConstraint, GrammarNotKept, GrammarVocabulary, vocabulary_of
from rft.chat.template_format import TemplateChatFormat
from rft.core.base import JsonObject
from rft.core.errors import SamplerError
from rft.core.ids import seed_63
from rft.core.json_schema import InvalidToolSchema
from rft.core.messages import ToolCall, ToolSchema
from rft.core.schema_fit import SchemaFit
from rft.serving_wire.records import CompletionRequest


@dataclass(frozen=True, slots=True)
class HeldCall:
    """What one sample is to be."""

    constraint: GrammarConstraint
    is_whole: bool
    """A whole call; else its arguments are to follow, as the policy writes them."""
    lenient: Collection[str]
    """Names of tools whose arguments may not fit: no sample can be held to all of their schemas."""

    def may_begin(self, token_ids: Sequence[int], calls: Sequence[ToolCall]) -> bool:
        """Whether it may be what was cut: its tokens, and the calls that were read of them."""
        return self.constraint.begins(token_ids) if self.is_whole else bool(calls)


@dataclass(frozen=True, slots=True)
class ForcedCalls:
    """Those of one request, whose choices share them."""

    chat_format: TemplateChatFormat
    tools: tuple[ToolSchema, ...]
    """All that the policy knows."""
    fits: Mapping[str, SchemaFit | None]
    """By the names of the tools one of which is to be called; None: whatever the arguments are."""
    call_id: str
    """No other call of the conversation has it: some templates write it."""
    _held: dict[bool, HeldCall] = field(default_factory=dict[bool, HeldCall])
    """By whether they stand behind a thought; none of them used."""
    _lock: Lock = field(default_factory=Lock)

    def accepts(self, calls: Sequence[ToolCall]) -> bool:
        """Whether these are calls as they were asked for. Nothing is asked of calls that cannot be read."""
        named = [call for call in calls if call.name]
        return bool(named) and all(call.name in self.fits and self._fits(call) for call in named)

    def keeps(self, held: HeldCall, calls: Sequence[ToolCall]) -> bool:
        """Whether calls that were sampled so are what the sample was held to. A server may not do that."""
        are_free = [call.name in held.lenient or not held.is_whole for call in calls]
        return bool(calls) and all(is_free or self._fits(call) for is_free, call in zip(are_free, calls, strict=True))

    def among(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """Those of the tools that were asked for, whatever their arguments are."""
        return tuple(call for call in calls if call.name in self.fits)

    def _fits(self, call: ToolCall) -> bool:
        fit = self.fits[call.name]
        try:
            return fit is None or fit.misfit(json.loads(call.arguments)) is None
        except RecursionError:
            return False

    def hold(self, *, is_behind_thought: bool) -> HeldCall:
        """For one sample. Takes a second at a tokenizer's first use. Raises SamplerError."""
        with self._lock:
            if is_behind_thought not in self._held:
                try:
                    self._held[is_behind_thought] = self._compile(is_behind_thought=is_behind_thought)
                except (ChatTemplateError, GrammarNotKept) as error:
                    raise SamplerError(f"no call can be forced: {error}") from error
            unused = self._held[is_behind_thought]
            return replace(unused, constraint=unused.constraint.for_another())

    def _compile(self, *, is_behind_thought: bool) -> HeldCall:
        vocabulary = vocabulary_of(self.chat_format.tokenizer)
        shape = call_shape(self.chat_format, self.tools, call_id=self.call_id, is_behind_thought=is_behind_thought)
        forced = [tool for tool in self.tools if tool.name in self.fits]
        try:
            return HeldCall(vocabulary.constraint(shape.rules(forced)), shape.is_whole, ())
        except GrammarNotKept:
            return _loosened(forced, shape, vocabulary)


def forced_calls(request: CompletionRequest, chat_format: TemplateChatFormat, prompt_tokens: int) -> ForcedCalls:
    """As the request asks for them. `prompt_tokens`: length of its prompt, which grows with the conversation."""
    fits = {tool.name: _fit(tool.parameters) for tool in request.tools if tool.name in request.forced_calls}
    call_id = f"call_{seed_63(request.seed, prompt_tokens, 'forced call'):016x}_0"
    return ForcedCalls(chat_format, request.tools, fits, call_id)


def _fit(parameters: JsonObject) -> SchemaFit | None:
    try:
        return SchemaFit.compiled(parameters)
    except InvalidToolSchema:  # Nothing is held against a model by a schema that cannot be read.
        return None


def _loosened(tools: Sequence[ToolSchema], shape: CallShape, vocabulary: GrammarVocabulary) -> HeldCall:
    """Of each schema as much as a sample can be held to. Raises GrammarNotKept."""

    def is_kept(tool: ToolSchema, *, lenient: Collection[str] = ()) -> bool:
        with suppress(GrammarNotKept):
            vocabulary.constraint(shape.rules([tool], lenient=lenient))
            return True
        return False

    lenient = [tool.name for tool in tools if not is_kept(tool)]
    hopeless = [tool.name for tool in tools if tool.name in lenient and not is_kept(tool, lenient=lenient)]
    kept = [tool.model_copy(update={"parameters": {}}) if tool.name in hopeless else tool for tool in tools]
    return HeldCall(vocabulary.constraint(shape.rules(kept, lenient=lenient)), shape.is_whole, lenient)
