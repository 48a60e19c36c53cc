"""A policy without a model: it calls the row's tools in turn with made-up arguments, then answers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rft.chat.chat_format import ParsedTurn
from rft.core.dataset import DatasetRow
from rft.core.messages import UNREADABLE_CALL_OUTPUT, Message, ToolCall, ToolResult, ToolSchema
from rft.core.response_format import ResponseFormat
from rft.grader_gateway.answer_format import AnswerFormat
from rft.rollouts.rehearsal_arguments import Material, answer_for, answer_of, arguments_for
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest
from rft.tool_gateway.arguments import ArgumentChecker

_STOP = 0
_RESULTS = 1


@dataclass(frozen=True, slots=True)
class _Script:
    """One turn as it was written, and what its rollout has yet to do."""

    row: DatasetRow
    calls: range
    """Numbers of the tool calls to come; a number says which of the row's tools is called."""
    turn: ParsedTurn


class ScriptedPolicy:
    """`Sampler` and `ChatFormat` in one: a token is a whole text, so nothing is tokenized.

    A prompt is the index of its row among `rows`, a turn the index of what was written; only its position tells them
    apart. The same rows and seeds give the same texts.
    """

    policy_version = 0
    max_context_tokens = 1 << 31
    stop_token_ids = (_STOP,)
    unreadable_call_output = UNREADABLE_CALL_OUTPUT

    def __init__(
        self,
        rows: Sequence[DatasetRow],
        *,
        calls: int,
        think_time_s: float,
        response_format: ResponseFormat | None = None,
    ) -> None:
        """`calls` of each rollout, one after the other; `think_time_s` is the mean time that a turn takes."""
        self._rows, self._calls, self._think_time_s = rows, calls, think_time_s
        self._materials = [Material.of(row) for row in rows]
        # Two rows may hold equal messages, so they are told apart by identity.
        self._index_of = {id(row.messages): index for index, row in enumerate(rows)}
        self._response_format = response_format
        self._format = None if response_format is None else AnswerFormat(response_format)
        self._checker = ArgumentChecker()
        self._written: list[_Script] = []
        self.unwritten_calls = 0
        """Calls left out because no arguments could be made up that fit the tool's schema."""

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        """The row's token. The messages must be those of one of the rows."""
        del tools
        return [self._index_of[id(messages)]]

    def suffix_ids(self, results: Sequence[ToolResult], turn_end: int | None = None) -> list[int]:
        """One token, whatever the tools answered: the script goes on all the same."""
        del results, turn_end
        return [_RESULTS]

    def count_tokens(self, text: str) -> int:
        """Every text is one token."""
        del text
        return 1

    def thought_limit(self, context_ids: Sequence[int], max_reasoning_tokens: int) -> int | None:
        """Nothing here thinks."""
        del context_ids, max_reasoning_tokens

    def thought_closing(self, context_ids: Sequence[int], token_ids: Sequence[int]) -> list[int]:
        """Nothing here thinks."""
        del context_ids, token_ids
        return []

    def parse(
        self,
        token_ids: Sequence[int],
        *,
        call_id_seed: int,
        tools: Sequence[ToolSchema] = (),
        context_ids: Sequence[int] = (),
    ) -> ParsedTurn:
        """What was written."""
        del call_id_seed, tools, context_ids
        return self._written[token_ids[0]].turn

    async def sample(self, request: SampleRequest) -> Sample:
        """The next turn of the script, after a pause as if a model were sampling."""
        rng = Random(request.seed)
        await asyncio.sleep(rng.uniform(0.0, 2.0 * self._think_time_s))
        self._written.append(self._next_turn(request.prompt_ids, rng))
        return Sample((len(self._written) - 1, _STOP), (0.0, 0.0), FinishReason.STOP)

    def _next_turn(self, prompt_ids: Sequence[int], rng: Random) -> _Script:
        index = prompt_ids[0]
        row, material = self._rows[index], self._materials[index]
        if len(prompt_ids) == 1:
            first = rng.randrange(max(1, len(row.tools)))
            calls = range(first, first + (self._calls if row.tools else 0))
        else:  # The last turn, its stop token and its results end the prompt.
            calls = self._written[prompt_ids[-3]].calls
        while calls:
            tool, calls = row.tools[calls[0] % len(row.tools)], calls[1:]
            arguments = arguments_for(tool, material, rng, self._checker)
            if arguments is not None:
                call = ToolCall(call_id="call_0", name=tool.name, arguments=arguments)
                return _Script(row, calls, ParsedTurn(content="", raw_text=arguments, tool_calls=(call,)))
            self.unwritten_calls += 1
        answer = self._answer(row, material, rng)
        return _Script(row, calls, ParsedTurn(content=answer, raw_text=answer, tool_calls=()))

    def _answer(self, row: DatasetRow, material: Material, rng: Random) -> str:
        answer, wanted = answer_of(row, material, rng), self._response_format
        if wanted is None or self._format is None or self._format.problem(answer) is None:
            return answer
        return answer_for(self._format, wanted.json_schema or {"type": "object"}, material, rng) or answer
