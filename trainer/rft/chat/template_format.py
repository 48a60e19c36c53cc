"""A `ChatFormat` that renders with a chat template and reads turns by a syntax."""

from collections.abc import Sequence

from rft.chat.chat_format import ParsedTurn
from rft.chat.dummies import Dummies
from rft.chat.errors import ChatTemplateError
from rft.chat.spelled_marks import ReadableText, SpelledMarks
from rft.chat.syntax import TurnSyntax, WrittenTurn
from rft.chat.template_messages import result_message, template_message, template_tool
from rft.chat.thinking import ThoughtMarks
from rft.chat.token_places import TokenPlaces
from rft.chat.tokenizer import Tokenizer
from rft.core.base import JsonObject
from rft.core.messages import (
    Message,
    Role,
    ToolCall,
    ToolResult,
    ToolSchema,
    in_order_of_calls,
    unreadable_call_output,
)

_PROBE = "is there a place for this"
_TAIL_TOKENS = 32
"""An opening mark and the white space behind it, however many tokens they are."""


class TemplateChatFormat:
    """Renders with the model's own template, or one that fits it, and reads what the model writes.

    The `developer` role is always rendered as `system`: it is the contract's word for it, and templates that do not
    know it drop such a message without a word. Raises ChatTemplateError when the template rewrites earlier turns or
    drops tool results.
    """

    def __init__(self, tokenizer: Tokenizer, syntax: TurnSyntax) -> None:
        self.tokenizer = tokenizer
        self.syntax = syntax
        self._stop_ids = frozenset(tokenizer.stop_ids)
        self._dummies = Dummies(tokenizer, syntax)
        self._spelled_marks = SpelledMarks(tokenizer, syntax.control_literals)

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn."""
        return self.tokenizer.stop_ids

    @property
    def style(self) -> JsonObject:
        """Fields of an assistant's message with calls that the template leaves as it is."""
        return self._dummies.style

    @property
    def takes_parallel_calls(self) -> bool:
        """Whether the template writes several calls into one turn."""
        return self._dummies.is_parallel

    @property
    def unreadable_call_output(self) -> str:
        """How a call is written in this syntax, in words."""
        return unreadable_call_output(self.syntax.call_shape)

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        """The whole prompt, ready for the policy to answer. Parallel calls are answered in their own order."""
        for place, message in enumerate(messages):
            if len(message.tool_calls) > 1 and not self.takes_parallel_calls:
                calls = len(message.tool_calls)
                raise ChatTemplateError(
                    f"the chat template writes one call a message, and messages[{place}] has {calls}"
                )
        shown = [template_message(message, self.syntax) for message in in_order_of_calls(messages)]
        listed = [*map(template_tool, tools)]
        prompt = self.tokenizer.apply_template(shown, listed, add_generation_prompt=True)
        for place, message in enumerate(shown):
            if place and message["role"] == Role.SYSTEM:  # Of all others, no template drops one.
                self._require_place(shown, place, listed)
        return prompt

    def _require_place(self, shown: Sequence[JsonObject], place: int, listed: Sequence[JsonObject]) -> None:
        """Some templates print the first system message alone. Its text says nothing: others may have the same."""
        probed = [*shown[:place], {**shown[place], "content": _PROBE}, *shown[place + 1 :]]
        if _PROBE not in self.tokenizer.decode(
            self.tokenizer.apply_template(probed, listed, add_generation_prompt=True)
        ):
            raise ChatTemplateError(f"the chat template drops messages[{place}], a developer's that is not the first")

    def suffix_ids(self, results: Sequence[ToolResult], turn_end: int | None = None) -> list[int]:
        """What follows a turn that ended in a stop token: all results, then the next turn's opening.

        The difference of two renderings of a dummy conversation, with and without the results, taken on token ids
        after the stop token of the dummy's call. Results of one turn go in together: templates may merge them.
        """
        shown = [result_message(result, self.syntax) for result in results]
        dummy = self._dummies.for_results(results)
        rendered = self.tokenizer.apply_template(
            [*dummy.messages, *shown], (), add_generation_prompt=True, own_messages=len(dummy.messages)
        )
        if rendered[: len(dummy.token_ids)] != dummy.token_ids:
            raise ChatTemplateError("the chat template rewrote an earlier turn for these tool results")
        end = dummy.token_ids[-1]
        is_opened = turn_end in (None, end) or self.tokenizer.decode([end]) != self.syntax.results_opening
        return rendered[len(dummy.token_ids) - (0 if is_opened else 1) :]

    def parse(
        self,
        token_ids: Sequence[int],
        *,
        call_id_seed: int,
        tools: Sequence[ToolSchema] = (),
        context_ids: Sequence[int] = (),
    ) -> ParsedTurn:
        """Decode and read one sampled turn."""
        is_closed = bool(token_ids) and token_ids[-1] in self._stop_ids
        raw_text, readable = self._decoded(token_ids[:-1] if is_closed else token_ids)
        is_opened = self.has_opened_thought(context_ids)
        read = self.syntax.read(readable.text, tools, is_thinking=is_opened)
        turn = readable.shown(read)
        calls = tuple(
            ToolCall(
                call_id=self.syntax.shown_id(call.call_id or f"call_{call_id_seed:016x}_{number}"),
                name=call.name,
                arguments=call.arguments,
            )
            for number, call in enumerate(turn.calls)
        )
        return ParsedTurn(
            content=turn.content,
            raw_text=raw_text,
            tool_calls=calls,
            reasoning=turn.reasoning,
            reasoning_tokens=self._tokens_in(self._thoughts(readable.text, read, is_opened=is_opened), token_ids),
        )

    def _decoded(self, token_ids: Sequence[int]) -> tuple[str, ReadableText]:
        """The text of a turn, and what of it a reader is shown."""
        text = self.tokenizer.decode(token_ids)
        text = text.replace("\x00", "\ufffd")  # No database takes it, and this text is for reading only.
        return text, self._spelled_marks.hide(text, token_ids)

    def _thoughts(self, text: str, turn: WrittenTurn, *, is_opened: bool) -> list[tuple[int, int]]:
        """Where they stand in the text."""
        marks = self.syntax.thought_marks
        if marks is None or not turn.reasoning:
            return []
        spans = marks.spans(text, is_opened=is_opened)
        if is_opened and turn.calls and spans[0][1] == len(text):  # A call has ended it.
            place = text.find(turn.reasoning)
            return [(spans[0][0], len(text) if place < 0 else place + len(turn.reasoning))]
        return spans

    def _tokens_in(self, spans: Sequence[tuple[int, int]], token_ids: Sequence[int]) -> int:
        places = TokenPlaces(token_ids if spans else (), self.tokenizer.decode)
        return sum(places.tokens_to(end) - places.tokens_to(start) for start, end in spans)

    def before_answer(self, token_ids: Sequence[int], context_ids: Sequence[int]) -> list[int]:
        """What of a turn stands in front of its answer: thoughts with their marks, and what opens an answer."""
        opening = self.syntax.answer_opening
        if opening is None:
            return self.thoughts_of(token_ids, context_ids)
        before, opened, _ = self._decoded(token_ids)[1].text.partition(opening)
        whole = self._leading(token_ids, len(before) + len(opening)) if opened else []
        return whole or self.tokenizer.encode(opening)

    def thoughts_of(self, token_ids: Sequence[int], context_ids: Sequence[int]) -> list[int]:
        """The thoughts that a turn begins with, with their marks; the last is closed where the turn has not done so."""
        is_closed = bool(token_ids) and token_ids[-1] in self._stop_ids
        text, marks = self._decoded(token_ids[:-1] if is_closed else token_ids)[1].text, self.syntax.thought_marks
        if marks is None:
            return []
        is_opened, kept = self.has_opened_thought(context_ids), list[int]()
        for _, end in self._opening_thoughts(text, marks, is_opened=is_opened):
            closing = next((mark for mark in marks.closings if text.startswith(mark, end)), None)
            read = self.syntax.read(text[:end] + (closing or marks.closings[0]), (), is_thinking=is_opened)
            if read.content or read.calls:
                break
            kept = self._leading(token_ids, end + len(closing or ""))
            if closing is None:
                return [*kept, *self.tokenizer.encode(marks.closings[0])]
        return kept

    def _opening_thoughts(self, text: str, marks: ThoughtMarks, *, is_opened: bool) -> list[tuple[int, int]]:
        """Where thoughts stand in a turn. One that the context has opened may end with a call."""
        spans = marks.spans(text, is_opened=is_opened)
        if is_opened and spans and spans[0][1] == len(text):
            turn = self.syntax.read(text, (), is_thinking=True)
            if turn.calls:
                return [(0, text.find(turn.reasoning) + len(turn.reasoning))]
        return spans

    def _leading(self, token_ids: Sequence[int], place: int) -> list[int]:
        return [*token_ids[: TokenPlaces(token_ids, self.tokenizer.decode).tokens_to(place)]]

    def has_opened_thought(self, context_ids: Sequence[int]) -> bool:
        """Whether a context ends within a thought that it has opened."""
        marks = self.syntax.thought_marks
        return marks is not None and self._tail(context_ids).endswith(marks.opening.rstrip())

    def thought_limit(self, context_ids: Sequence[int], max_reasoning_tokens: int) -> int | None:
        """How many tokens of a turn behind `context_ids` may be sampled before its thought is too long.

        None where there is nothing to limit: the syntax has no thoughts, or the context has closed the turn's.
        """
        marks, before = self.syntax.thought_marks, self._tail(context_ids)
        if marks is None or before.endswith(marks.closings):
            return None
        opening = [] if self.has_opened_thought(context_ids) else self.tokenizer.encode(marks.opening)
        return max_reasoning_tokens + len(opening)

    def thought_closing(self, context_ids: Sequence[int], token_ids: Sequence[int]) -> list[int]:
        """What closes the thought that a turn so far is within; empty where it is in none."""
        marks = self.syntax.thought_marks
        if marks is None:
            return []
        is_opened, text = self.has_opened_thought(context_ids), self._decoded(token_ids)[1].text
        if not marks.is_open_at_end(text, is_opened=is_opened):
            return []
        if is_opened and self.syntax.read(text, (), is_thinking=True).calls:  # A call has ended it, or is about to.
            return []
        return self.tokenizer.encode(marks.breaking_off)

    def _tail(self, token_ids: Sequence[int]) -> str:
        """The end of a context, white space apart."""
        return self.tokenizer.decode(token_ids[-_TAIL_TOKENS:]).rstrip()

    def count_tokens(self, text: str) -> int:
        """Length in policy tokens of a text that is shown to the model."""
        return len(self.tokenizer.encode_text(text))
