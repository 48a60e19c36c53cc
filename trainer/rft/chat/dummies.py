"""Dummy conversations: what a template puts behind a tool call is found by rendering it with and without results."""

from collections.abc import Sequence
from dataclasses import dataclass

from rft.chat.errors import ChatTemplateError
from rft.chat.syntax import TurnSyntax
from rft.chat.template_messages import result_message, template_call
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN
from rft.chat.tokenizer import Tokenizer
from rft.core.base import JsonObject
from rft.core.messages import ToolResult

STYLES: tuple[JsonObject, ...] = (
    {"content": ""},
    {"content": f"{THINK_OPEN}\nprobe\n{THINK_CLOSE}\n\n"},
    {"content": "", "reasoning_content": "probe", "reasoning": "probe", "thinking": "probe"},
)
"""What else a turn of calls may have. Thinking templates add an empty thought to a last turn that has none and drop it
again later, so a dummy that thinks is tried, too: real turns of such models do think."""
_ID = "call_of_a_dummy"
"""No other call has it: templates look up the name of a result's call by its id."""
_QUESTION: JsonObject = {"role": "user", "content": "probe"}
_REWRITES = (
    "the chat template rewrites earlier turns when tool results are appended, so a rollout would not be one "
    "row of tokens; use a template that keeps history as it was (TRL ships such ones as *_training.jinja)"
)


@dataclass(frozen=True, slots=True)
class Dummy:
    """A conversation that ends in tool calls, and its ids to the stop token."""

    messages: list[JsonObject]
    token_ids: list[int]


class Dummies:
    """Finds a dummy that the template carries on without rewriting it. Raises ChatTemplateError where there is none."""

    def __init__(self, tokenizer: Tokenizer, syntax: TurnSyntax) -> None:
        self._tokenizer = tokenizer
        self._syntax = syntax
        self._stop_ids = frozenset(tokenizer.stop_ids)
        self.style, self._fixed = self._probe()
        self.is_parallel = self._takes_two_calls()
        self._is_named = self._prints_names()

    def for_results(self, results: Sequence[ToolResult]) -> Dummy:
        """One that fits these results: some templates repeat the name or the id of the call in its result."""
        if not self._is_named:
            return self._fixed
        named = results if self.is_parallel else results[:1]
        calls = [(result.call_id, result.name or "unreadable") for result in named]
        return self._dummy(self.style, calls, [result_message(result, self._syntax) for result in results])

    def _probe(self) -> tuple[JsonObject, Dummy]:
        first: ChatTemplateError | None = None
        for style in STYLES:
            try:
                return style, self._check_law(style)
            except ChatTemplateError as error:
                first = first or error
        assert first is not None
        raise first

    def _check_law(self, style: JsonObject) -> Dummy:
        """The dummy of one style, when two rounds of results leave all before them as it was."""
        one, two, three = (self._result(f"{number} probe") for number in ("first", "second", "third"))
        dummy = self._dummy(style, [(_ID, "probe")], [one, two])
        one_round = [*dummy.messages, one, two]
        two_rounds = [*one_round, self._calls(style, [(_ID, "probe")]), three]
        first, second = (self._render(rounds, add_generation_prompt=True) for rounds in (one_round, two_rounds))
        if first[: len(dummy.token_ids)] != dummy.token_ids or second[: len(first)] != first:
            raise ChatTemplateError(_REWRITES)
        shown = self._tokenizer.decode(second[len(dummy.token_ids) :])
        if not all(f"{number} probe" in shown for number in ("first", "second", "third")):
            raise ChatTemplateError("the chat template drops tool results: it has no place for the role `tool`")
        return dummy

    def _dummy(self, style: JsonObject, calls: Sequence[tuple[str, str]], results: Sequence[JsonObject]) -> Dummy:
        """Through the stop token of the calls: templates put a newline behind it that no policy samples.

        Some close no turn themselves: the mark that opens the results is what the policy stops at.
        """
        messages = [_QUESTION, self._calls(style, calls)]
        asked = self._render([_QUESTION], add_generation_prompt=False)
        called = self._render(messages, add_generation_prompt=False)
        answered = self._render([*messages, *results], add_generation_prompt=True)
        start = _shared(asked, called)
        end = next((end for end in range(len(called), start, -1) if called[end - 1] in self._stop_ids), None)
        if end is not None:
            return Dummy(messages, called[:end])
        if answered[: len(called)] == called and self._stop_ids & set(answered[len(called) : len(called) + 1]):
            return Dummy(messages, answered[: len(called) + 1])
        raise ChatTemplateError(
            f"the chat template closes no turn with a stop token (stop ids {self._tokenizer.stop_ids})"
        )

    def _takes_two_calls(self) -> bool:
        calls = [("call_0", "first_probe"), ("call_1", "second_probe")]
        try:
            dummy = self._dummy(self.style, calls, [self._result("first probe"), self._result("second probe")])
        except ChatTemplateError:
            return False
        written = self._tokenizer.decode(dummy.token_ids)
        return all(name in written for _, name in calls)

    def _prints_names(self) -> bool:
        """Whether what follows the calls depends on their names, ids or number."""
        one = ToolResult(call_id="call_1", name="other", output="probe")
        two = ToolResult(call_id="call_2", name="another", output="probe")
        for results in ([one], [one, two]) if self.is_parallel else ([one],):
            shown = [result_message(result, self._syntax) for result in results]
            try:
                named = self._dummy(self.style, [(result.call_id, result.name) for result in results], shown)
                if self._suffix(named, shown) != self._suffix(self._fixed, shown):
                    return True
            except ChatTemplateError:
                return True
        return False

    def _suffix(self, dummy: Dummy, shown: Sequence[JsonObject]) -> list[int]:
        return self._render([*dummy.messages, *shown], add_generation_prompt=True)[len(dummy.token_ids) :]

    def _render(self, messages: Sequence[JsonObject], *, add_generation_prompt: bool) -> list[int]:
        return self._tokenizer.apply_template(
            messages, (), add_generation_prompt=add_generation_prompt, own_messages=len(messages)
        )

    def _calls(self, style: JsonObject, calls: Sequence[tuple[str, str]]) -> JsonObject:
        shown = [template_call(self._syntax.shown_id(call_id), name, {}) for call_id, name in calls]
        return {"role": "assistant", **style, "tool_calls": [*shown]}

    def _result(self, output: str) -> JsonObject:
        return result_message(ToolResult(call_id=_ID, name="probe", output=output), self._syntax)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids both begin with."""
    for place, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return place
    return min(len(one), len(other))
