"""Traces of a capable but wasteful researcher: the mixture of habits that the starter is warmed up on.

The skills in them (copying years, pages and values) are flawless; the strategy is not. Reinforcement learning repairs
strategy, so this is what it gets to repair.
"""

import json
import random
from dataclasses import dataclass, replace

from rft.starter.world import ARGUMENT_NAMES, METRICS, NO_SUCH_FILE, Question, World

MAX_CALLS = 10
"""Tool calls a rollout may make, as in the example job."""
BUDGET_USED_UP = (
    f"Error: tool call budget used up ({MAX_CALLS} calls). This call was not made. Answer now without tools."
)
"""What a call beyond the budget is answered with."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Probabilities of the decisions in a trace."""

    list_first: float = 0.75
    list_again: float = 0.65
    query_year: float = 0.4
    """Search for company and year: the good query."""
    query_metric: float = 0.3
    """Search for company and metric; the rest searches for the company alone."""
    search_again: float = 0.5
    mistyped_page: float = 0.05
    right_row: float = 0.95
    """Open the right report when it is visible; else a random row."""
    start_over: float = 0.6
    """Search again after opening a wrong report, instead of answering from it."""
    right_metric: float = 0.95
    unknown: float = 0.08
    focus: float = 0.68
    """What each call beyond the two that are needed leaves of `right_row` and `right_metric`: clutter confuses. Without
    this nothing but the budget would speak against needless calls."""

    def shifted(self, amount: float) -> "Habits":
        """Better habits for a positive amount, worse ones for a negative; they earn roughly that much more reward."""
        return replace(
            self,
            query_year=_clip(self.query_year + amount / 2),
            focus=_clip(self.focus + 1.5 * amount),
        )


SKILLED = Habits(
    list_first=0.3,
    list_again=0.1,
    query_year=0.6,
    query_metric=0.25,
    search_again=0.1,
    mistyped_page=0.04,
    right_row=0.9,
    start_over=0.9,
    right_metric=0.98,
    unknown=0.02,
    focus=1.0,
)
"""What the skills are learned from, before the habits take over."""


def _clip(probability: float) -> float:
    return min(0.95, max(0.05, probability))


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the assistant wrote, and the tool output it got; None after the final answer."""

    text: str
    output: str | None


def tool_call_text(name: str, argument: str) -> str:
    """A call in the Hermes form, exactly as the policy shall write it."""
    call = {"name": name, "arguments": {ARGUMENT_NAMES[name]: argument}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def play(rng: random.Random, world: World, question: Question, habits: Habits) -> list[Exchange]:
    """One trace: the habits decide, the real tools answer. Ends in an answer after at most MAX_CALLS + 1 calls."""
    return _Researcher(rng, world, question, habits).play()


class _BudgetUsedUp(Exception):
    pass


class _Researcher:
    def __init__(self, rng: random.Random, world: World, question: Question, habits: Habits) -> None:
        self._rng, self._world, self._question, self._habits = rng, world, question, habits
        self._exchanges: list[Exchange] = []

    def play(self) -> list[Exchange]:
        try:
            if self._chance(self._habits.list_first):
                self._list()
            path = self._research()
            while path != self._question.path and self._chance(self._habits.start_over):
                path = self._research()
        except _BudgetUsedUp:
            path = None
        self._exchanges.append(Exchange(self._answer(path), None))
        return self._exchanges

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _focus(self, needed_calls: int) -> float:
        return self._habits.focus ** max(0, len(self._exchanges) - needed_calls)

    def _call(self, name: str, argument: str) -> str:
        is_over = len(self._exchanges) >= MAX_CALLS
        output = BUDGET_USED_UP if is_over else self._world.call(name, argument)
        self._exchanges.append(Exchange(tool_call_text(name, argument), output))
        if is_over:
            raise _BudgetUsedUp
        return output

    def _list(self) -> None:
        for _ in range(4):
            self._call("list", self._question.company)
            if not self._chance(self._habits.list_again):
                return

    def _research(self) -> str:
        """Search until content, open a row of the last search; the path of the report that was opened."""
        rows = self._search()
        while self._chance(self._habits.search_again):
            rows = self._search()
        is_right_visible = self._question.path in rows
        path = (
            self._question.path if is_right_visible and self._chance(self._habits.right_row) else self._rng.choice(rows)
        )
        if self._chance(self._habits.mistyped_page):
            folder, page = path.rsplit("/", 1)
            wrong = self._rng.choice([number for number in range(10, 100) if str(number) != page])
            if self._call("cat", f"{folder}/{wrong}") != NO_SUCH_FILE:
                raise AssertionError("a mistyped page opened a report")
        self._call("cat", path)
        return path

    def _search(self) -> list[str]:
        company, draw = self._question.company, self._rng.random()
        if draw < self._habits.query_year:
            query = f"{company} {self._question.year}"
        elif draw < self._habits.query_year + self._habits.query_metric:
            query = f"{company} {self._question.metric}"
        else:
            query = company
        return self._call("search", query).split("\n")

    def _answer(self, path: str | None) -> str:
        if path is None or self._chance(self._habits.unknown):
            return "Answer: unknown"
        values = dict(self._world.rows(path))
        wanted = self._question.metric
        is_right = wanted in values and self._chance(self._habits.right_metric * self._focus(2))
        metric = wanted if is_right else self._rng.choice([name for name in values if name != wanted])
        return f"Answer: {metric}: {values[metric]}"


WORDS = ("unknown", "Answer", *METRICS)
"""Words of the answers, for the tokenizer."""
