"""Turns that have to call a tool: which do, and what holds a sample to it."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rft.chat.call_grammar import CallShape, call_shape
from rft.chat.errors import ChatTemplateError
from rft.chat.grammar import GrammarConstraint, GrammarNotKept
from rft.chat.template_format import TemplateChatFormat
from rft.core.base import JsonObject
from rft.core.errors import SamplerError
from rft.core.json_schema import InvalidToolSchema
from rft.core.messages import ToolCall, ToolSchema
from rft.core.schema_fit import SchemaFit
from rft.serving.formats import vocabulary_of


@dataclass(frozen=True, slots=True)
class HeldCall:
    """What one sample is to be."""

    constraint: GrammarConstraint
    is_whole: bool
    """A whole call; else its arguments are to follow, as the policy writes them."""

    def may_begin(self, token_ids: Sequence[int], calls: Sequence[ToolCall]) -> bool:
        """Whether it may be what was cut: its tokens, and the calls that were read of them."""
        return self.constraint.begins(token_ids) if self.is_whole else bool(calls)


@dataclass(frozen=True, slots=True)
class ForcedCalls:
    """Those of one request."""

    chat_format: TemplateChatFormat
    tools: tuple[ToolSchema, ...]
    """All that the policy knows."""
    fits: Mapping[str, SchemaFit | None]
    """By the names of the tools one of which is to be called; None: whatever the arguments are."""

    def problem(self, calls: Sequence[ToolCall]) -> str | None:
        """Why these are not what was asked for; None where they are. Nothing is asked of calls that cannot be read."""
        named = [call for call in calls if call.name]
        if not named:
            return "the model called no tool"
        return next((problem for call in named if (problem := self._problem_of(call)) is not None), None)

    def _problem_of(self, call: ToolCall) -> str | None:
        if call.name not in self.fits:
            return f"the model called {call.name!r}"
        fit = self.fits[call.name]
        try:
            misfit = None if fit is None else fit.misfit(json.loads(call.arguments))
        except RecursionError:
            return f"the arguments of {call.name!r} are nested too deeply"
        return None if misfit is None else f"the arguments of {call.name!r} do not fit: {misfit.message}"

    def hold(self, *, call_id: str, is_behind_thought: bool) -> HeldCall:
        """For one sample. Takes a second at a tokenizer's first use. Raises SamplerError."""
        try:
            shape = call_shape(self.chat_format, self.tools, call_id=call_id, is_behind_thought=is_behind_thought)
            return HeldCall(self._constraint(shape), shape.is_whole)
        except (ChatTemplateError, GrammarNotKept) as error:
            raise SamplerError(f"no call can be forced: {error}") from error

    def _constraint(self, shape: CallShape) -> GrammarConstraint:
        vocabulary = vocabulary_of(self.chat_format.tokenizer)
        forced = [tool for tool in self.tools if tool.name in self.fits]
        try:
            return vocabulary.constraint(shape.rules(forced))
        except GrammarNotKept:  # A schema with a keyword that nothing can be held to.
            any_object = [tool.model_copy(update={"parameters": {}}) for tool in forced]
            return vocabulary.constraint(shape.rules(any_object))


def forced_calls(names: Collection[str], tools: tuple[ToolSchema, ...], chat_format: TemplateChatFormat) -> ForcedCalls:
    """Calls of the tools of these names."""
    fits = {tool.name: _fit(tool.parameters) for tool in tools if tool.name in names}
    return ForcedCalls(chat_format, tools, fits)


def _fit(parameters: JsonObject) -> SchemaFit | None:
    try:
        return SchemaFit.compiled(parameters)
    except InvalidToolSchema:  # Nothing is held against a model by a schema that cannot be read.
        return None
