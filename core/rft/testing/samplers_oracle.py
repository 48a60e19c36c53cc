"""A policy that knows the answers: for proving that the whole stack can reach the reward a dataset holds."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rft.chat.template_format import TemplateChatFormat
from rft.core.base import JsonObject, Record
from rft.core.dataset import DatasetRow, RowProblem, parse_row
from rft.core.errors import RftError
from rft.core.spec import RunSpec
from rft.rollouts.sampler import SampleRequest
from rft.testing.samplers import Latency, ModelFreeEngine, no_latency, tool_call_text

PLANS = "oracle_plans.jsonl"
"""File of `OraclePlanLine`s in the base model's directory, read by `oracle_engine`."""


class OracleCall(Record):
    """One tool call to make."""

    name: str
    arguments: JsonObject


class OraclePlan(Record):
    """What to do on one row: the calls, one turn each, then the answer."""

    calls: tuple[OracleCall, ...]
    answer: str

    @property
    def turns(self) -> list[str]:
        """The texts to write, in order."""
        calls = [tool_call_text(call.name, json.dumps(call.arguments, ensure_ascii=False)) for call in self.calls]
        return [*calls, self.answer]


class OraclePlanLine(Record):
    """One line of `oracle_plans.jsonl`: a row exactly as it stands in the dataset, and its plan."""

    row: JsonObject
    plan: OraclePlan


@dataclass(frozen=True, slots=True)
class _Known:
    prompt_ids: tuple[int, ...]
    turns: tuple[tuple[int, ...], ...]
    """Token ids with the stop token."""


class OracleSampler(ModelFreeEngine):
    """Recognises each row by the token ids of its prompt and follows its plan; raises RftError on an unknown row.

    Keeps no state between turns: how far a rollout has come is read from its tokens.
    """

    def __init__(
        self,
        rows: Iterable[DatasetRow],
        plan: Callable[[JsonObject], OraclePlan],
        chat_format: TemplateChatFormat,
        *,
        max_context_tokens: int = 32768,
        latency: Latency = no_latency,
    ) -> None:
        super().__init__(max_context_tokens=max_context_tokens, latency=latency)
        self._known: dict[tuple[int, ...], _Known] = {}
        for row in rows:
            prompt_ids = tuple(chat_format.prompt_ids(row.messages, row.tools))
            turns = tuple(_turn_ids(text, chat_format) for text in plan(row.item).turns)
            self._known[prompt_ids] = _Known(prompt_ids, turns)
        self._lengths = sorted({len(prompt_ids) for prompt_ids in self._known}, reverse=True)

    def turn_ids(self, request: SampleRequest) -> list[int]:
        """The next turn of the plan; its last one again when the plan is through."""
        buffer = tuple(request.prompt_ids)
        known = self._recognise(buffer)
        return list(known.turns[min(_turns_written(buffer, known), len(known.turns) - 1)])

    def _recognise(self, buffer: tuple[int, ...]) -> _Known:
        for length in self._lengths:
            known = self._known.get(buffer[:length])
            if known is not None:
                return known
        raise RftError("the oracle has no plan for this row")


def _turn_ids(text: str, chat_format: TemplateChatFormat) -> tuple[int, ...]:
    return (*chat_format.tokenizer.encode(text), chat_format.stop_token_ids[0])


def _turns_written(buffer: tuple[int, ...], known: _Known) -> int:
    """How many turns of the plan stand in the buffer, in order."""
    position = len(known.prompt_ids)
    for number, turn in enumerate(known.turns):
        position = _end_of(turn, buffer, position)
        if position < 0:
            return number
    return len(known.turns)


def _end_of(turn: Sequence[int], buffer: tuple[int, ...], start: int) -> int:
    """Where `turn` ends in the buffer at or after `start`; -1 when it is not there."""
    wanted = tuple(turn)
    for begin in range(start, len(buffer) - len(wanted) + 1):
        if buffer[begin] == wanted[0] and buffer[begin : begin + len(wanted)] == wanted:
            return begin + len(wanted)
    return -1


def oracle_engine(base_model_dir: Path, spec: RunSpec, chat_format: TemplateChatFormat) -> OracleSampler:
    """The engine of a base model directory that holds `oracle_plans.jsonl`. Raises RftError on a bad line."""
    del spec
    plans: dict[str, OraclePlan] = {}
    rows: list[DatasetRow] = []
    for number, line in enumerate((base_model_dir / PLANS).read_text().splitlines(), start=1):
        read = OraclePlanLine.model_validate_json(line)
        text = json.dumps(read.row)
        row = parse_row(text, line_number=number, index=len(rows))
        if isinstance(row, RowProblem):
            raise RftError(f"{PLANS}: {row}")
        rows.append(row)
        plans[text] = read.plan
    return OracleSampler(rows, lambda item: plans[json.dumps(item)], chat_format)
