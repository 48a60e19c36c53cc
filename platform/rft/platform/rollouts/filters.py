"""Which of a job's rollouts are wanted, and in which order."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, LiteralString

from rft.core.base import Record
from rft.core.failure import FAULTS, FailureCode, Fault
from rft.core.rollout import Split, StopReason
from rft.platform.store.said import LONGEST_WORD, terms_of

Outcome = Literal["graded", "failed"]
Order = Literal["asc", "desc"]


class Sort(StrEnum):
    """By what rollouts are sorted; rollouts that are equal in it stand as in `newest`."""

    NEWEST = "newest"
    """By step, the newest first; within a step by split, row, place in the group and attempt, upwards."""
    REWARD = "reward"
    """Rollouts without a reward come last, in either order."""
    COMPLETION_TOKENS = "completion_tokens"
    DURATION_S = "duration_s"
    TOOL_CALLS = "tool_calls"


class RolloutFilter(Record):
    """Which rollouts of a job are wanted; None: all. Both ends of a range are in it."""

    split: Split | None = None
    step: int | None = None
    from_step: int | None = None
    to_step: int | None = None
    row_index: int | None = None
    outcome: Outcome | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    stop_reason: StopReason | None = None
    failure_code: FailureCode | None = None
    fault: Fault | None = None
    """Whose doing the failure was."""
    tool: str | None = None
    """Name of a tool that was called."""
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_duration_s: float | None = None
    max_duration_s: float | None = None
    q: str | None = None
    """Words that are all in the prompt or the answer; `word*` is the beginning of one."""
    contains: str | None = None
    """Text that is in the prompt or the answer, as it is but for upper and lower case; within one step."""

    @property
    def one_step(self) -> int | None:
        """The only step that is looked at, where it is one."""
        if self.step is None and self.from_step is not None and self.from_step == self.to_step:
            return self.from_step
        return self.step

    @property
    def fault_codes(self) -> list[str]:
        """The failure codes that are `fault`'s doing."""
        return [code for code, fault in FAULTS.items() if fault is self.fault]


class RolloutOrder(Record):
    """In which order rollouts come."""

    sort: Sort = Sort.NEWEST
    order: Order = "desc"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a search."""

    text: str
    """Letters and digits alone, in lower case."""
    is_prefix: bool

    @property
    def query(self) -> str:
        """As a `tsquery`."""
        return f"'{self.text}':*" if self.is_prefix else f"'{self.text}'"

    @property
    def pattern(self) -> str:
        """A regular expression that finds it in text in lower case."""
        return f"(^|[^[:alnum:]]){self.text}" + ("" if self.is_prefix else "([^[:alnum:]]|$)")


def searched_terms(q: str) -> list[Word]:
    """The words of a search; empty where there are none."""
    return [*_searched(q)]


def _searched(q: str) -> Iterator[Word]:
    for part in q.split():
        terms = [term for term in terms_of(part) if len(term) <= LONGEST_WORD]
        for place, word in enumerate(terms, start=1):
            yield Word(word, is_prefix=part.endswith("*") and place == len(terms))


CONDITIONS: dict[str, LiteralString] = {
    "split": "split = %(split)s",
    "step": "step = %(step)s",
    "from_step": "step >= %(from_step)s",
    "to_step": "step <= %(to_step)s",
    "row_index": "row_index = %(row_index)s",
    "min_reward": "reward >= %(min_reward)s",
    "max_reward": "reward <= %(max_reward)s",
    "stop_reason": "stop_reason = %(stop_reason)s",
    "failure_code": "failure_code = %(failure_code)s",
    "fault": "failure_code = any(%(fault_codes)s)",
    "min_tokens": "completion_tokens >= %(min_tokens)s",
    "max_tokens": "completion_tokens <= %(max_tokens)s",
    "min_duration_s": "duration_s >= %(min_duration_s)s",
    "max_duration_s": "duration_s <= %(max_duration_s)s",
    "tool": "tool_bits & (1::bigint << %(tool_bit)s) <> 0",
    "contains": "strpos(lower(concat_ws(E'\\n', rollout_prompt(record), rollout_answer(record))),"
    " lower(%(contains)s)) > 0",
    "q": "lower(concat_ws(E'\\n', rollout_prompt(record), rollout_answer(record))) ~ all(%(patterns)s::text[])",
}
"""What a field of a filter asks of a row of `rollouts`; `outcome` is beside them."""
OF_OUTCOME: dict[Outcome, LiteralString] = {"graded": "reward is not null", "failed": "reward is null"}
_ASKS_RECORD: LiteralString = "record -> 'tool_calls' ? %(tool)s"


def conditions(wanted: RolloutFilter, *, is_bit_shared: bool) -> LiteralString:
    """All of them, each with `and` before it; without the split, which decides where is looked.

    They are written out where they are wanted: a condition that may be null keeps the planner from every index.
    `is_bit_shared`: the wanted tool's bit is also that of others.
    """
    text: LiteralString = ""
    given = wanted.model_dump(exclude_none=True, exclude={"split", "outcome"})
    for name, condition in CONDITIONS.items():
        if name in given:
            text += " and " + condition
    if wanted.outcome is not None:
        text += " and " + OF_OUTCOME[wanted.outcome]
    if is_bit_shared:
        text += " and " + _ASKS_RECORD
    return text
