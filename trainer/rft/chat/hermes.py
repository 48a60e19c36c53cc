"""Chat format of Hermes/Qwen-style templates over any tokenizer that can render its chat template to token ids."""

import json
from collections.abc import Sequence

from pydantic import JsonValue

from rft.chat.chat_format import ParsedTurn
from rft.chat.tokenizer import Tokenizer
from rft.chat.tool_call_text import THINK_CLOSE, THINK_OPEN, read_turn
from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.core.messages import Message, Role, ToolCall, ToolResult, ToolSchema


class ChatTemplateError(RftError):
    """The chat template cannot carry tool results behind an append-only token buffer."""


class HermesChatFormat:
    """A `ChatFormat` that renders with the model's own template and reads `<tool_call>` JSON blocks.

    The `developer` role is always rendered as `system`: it is the contract's word for it, and templates that do not
    know it drop such a message without a word. Raises ChatTemplateError when the template rewrites earlier turns or
    drops tool results.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._stop_ids = frozenset(tokenizer.stop_ids)
        self._dummy, self._dummy_ids = self._probe()

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn."""
        return self.tokenizer.stop_ids

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        """The whole prompt, ready for the policy to answer."""
        return self.tokenizer.apply_template(
            [_template_message(message) for message in messages],
            [_template_tool(tool) for tool in tools],
            add_generation_prompt=True,
        )

    def suffix_ids(self, results: Sequence[ToolResult]) -> list[int]:
        """What follows a turn that ended in a stop token: all results, then the next turn's opening.

        The difference of two renderings of a dummy conversation, with and without the results, taken on token ids
        after the stop token of the dummy's call. Results of one turn go in together: templates may merge them.
        """
        shown = [_result_message(result) for result in results]
        rendered = self._render([*self._dummy, *shown], own_messages=len(self._dummy))
        if rendered[: len(self._dummy_ids)] != self._dummy_ids:
            raise ChatTemplateError("the chat template rewrote an earlier turn for these tool results")
        return rendered[len(self._dummy_ids) :]

    def parse(self, token_ids: Sequence[int], *, call_id_seed: int) -> ParsedTurn:
        """Decode and read one sampled turn. Templates of this kind print no call ids, so any shape will do."""
        is_closed = bool(token_ids) and token_ids[-1] in self._stop_ids
        text = self.tokenizer.decode(token_ids[:-1] if is_closed else token_ids)
        text = text.replace("\x00", "\ufffd")  # No database takes it, and this text is for reading only.
        content, calls = read_turn(text, call_id_prefix=f"call_{call_id_seed:016x}_")
        return ParsedTurn(content=content, raw_text=text, tool_calls=calls)

    def count_tokens(self, text: str) -> int:
        """Length in policy tokens of a text that is shown to the model."""
        return len(self.tokenizer.encode_text(text))

    def _render(self, messages: Sequence[JsonObject], *, own_messages: int) -> list[int]:
        return self.tokenizer.apply_template(messages, (), add_generation_prompt=True, own_messages=own_messages)

    def _probe(self) -> tuple[list[JsonObject], list[int]]:
        """A dummy conversation that the template carries on without rewriting it, and its ids to the stop token.

        Thinking templates add an empty thought to a last turn that has none and drop it again later, so a dummy that
        thinks is tried second: real turns of such models do think.
        """
        for content in ("", f"{THINK_OPEN}\nprobe\n{THINK_CLOSE}\n\n"):
            dummy: list[JsonObject] = [{"role": "user", "content": "probe"}, _dummy_call(content)]
            dummy_ids = self._through_stop(
                self.tokenizer.apply_template(dummy, (), add_generation_prompt=False, own_messages=2)
            )
            one_round: list[JsonObject] = [*dummy, _dummy_result("first probe"), _dummy_result("second probe")]
            two_rounds: list[JsonObject] = [*one_round, _dummy_call(content), _dummy_result("third probe")]
            first, second = (self._render(rounds, own_messages=len(rounds)) for rounds in (one_round, two_rounds))
            if first[: len(dummy_ids)] == dummy_ids and second[: len(first)] == first:
                self._check_results_shown(second[len(dummy_ids) :])
                return dummy, dummy_ids
        raise ChatTemplateError(
            "the chat template rewrites earlier turns when tool results are appended, so a rollout would not be one "
            "row of tokens; use a template that keeps history as it was (TRL ships such ones as *_training.jinja)"
        )

    def _through_stop(self, token_ids: list[int]) -> list[int]:
        """Cut after the last stop token: templates put a newline behind it that no policy samples."""
        for end in range(len(token_ids), 0, -1):
            if token_ids[end - 1] in self._stop_ids:
                return token_ids[:end]
        raise ChatTemplateError(f"the chat template closes no turn with a stop token (stop ids {self.stop_token_ids})")

    def _check_results_shown(self, suffix: list[int]) -> None:
        text = self.tokenizer.decode(suffix)
        if not all(f"{number} probe" in text for number in ("first", "second", "third")):
            raise ChatTemplateError("the chat template drops tool results: it has no place for the role `tool`")


def _template_message(message: Message) -> JsonObject:
    """In the shape chat templates read."""
    role = Role.SYSTEM if message.role is Role.DEVELOPER else message.role
    rendered: JsonObject = {"role": role.value, "content": message.content}
    if message.tool_calls:
        rendered["tool_calls"] = [_template_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        rendered["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        rendered["name"] = message.name
    return rendered


def _template_call(call: ToolCall) -> JsonObject:
    """Templates dump arguments themselves, so an object goes in as one; text that is no object stays text."""
    try:
        parsed: JsonValue = json.loads(call.arguments)
    except (ValueError, RecursionError):
        parsed = None
    arguments = parsed if isinstance(parsed, dict) else call.arguments
    return {"type": "function", "id": call.call_id, "function": {"name": call.name, "arguments": arguments}}


def _template_tool(tool: ToolSchema) -> JsonObject:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _result_message(result: ToolResult) -> JsonObject:
    if result.output is None:
        raise ValueError("a failed tool call has no output to show")
    return {"role": "tool", "content": result.output, "tool_call_id": result.call_id, "name": result.name}


def _dummy_call(content: str) -> JsonObject:
    call: JsonObject = {"type": "function", "id": "call_0", "function": {"name": "probe", "arguments": {}}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def _dummy_result(output: str) -> JsonObject:
    return {"role": "tool", "content": output, "tool_call_id": "call_0", "name": "probe"}
