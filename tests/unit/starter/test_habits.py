"""Traces of the warm-up: made by the real tools, within the budget, wasteful in the intended way."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rft.starter.habits import BUDGET_USED_UP, MAX_CALLS, Exchange, Habits, play
from rft.starter.player import grade
from rft.starter.probes import FLAWLESS
from rft.starter.world import ARGUMENT_NAMES, WARMUP_COMPANIES, Question, World


def traces(habits: Habits, count: int = 300) -> list[tuple[World, Question, list[Exchange]]]:
    rng = random.Random(1)
    world = World.draw(rng, WARMUP_COMPANIES[:30])
    questions = [world.question(rng) for _ in range(count)]
    return [(world, question, play(rng, world, question, habits)) for question in questions]


def mean_reward(habits: Habits) -> float:
    rewards = [grade(exchanges[-1].text, question.answer) for _, question, exchanges in traces(habits, 1500)]
    return sum(rewards) / len(rewards)


def calls(exchanges: Sequence[Exchange]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for exchange in exchanges[:-1]:
        call = json.loads(exchange.text.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
        found.append((call["name"], call["arguments"][ARGUMENT_NAMES[call["name"]]]))
    return found


def test_flawless_habits_search_read_and_answer() -> None:
    for _, question, exchanges in traces(FLAWLESS):
        assert calls(exchanges) == [("search", f"{question.company} {question.year}"), ("cat", question.path)]
        assert exchanges[-1] == Exchange(f"Answer: {question.metric}: {question.answer}", None)


def test_outputs_are_the_tools_own() -> None:
    for world, _, exchanges in traces(Habits()):
        for exchange, (name, argument) in zip(exchanges, calls(exchanges), strict=False):
            assert exchange.output in (world.call(name, argument), BUDGET_USED_UP)


def test_one_call_beyond_the_budget_is_refused_and_ends_in_a_confession() -> None:
    talkative = replace(Habits(), search_again=0.95)
    overrun = [exchanges for _, _, exchanges in traces(talkative) if exchanges[-2].output == BUDGET_USED_UP]
    assert overrun
    for exchanges in overrun:
        assert len(exchanges) == MAX_CALLS + 2
        assert exchanges[-1].text == "Answer: unknown"
    for _, _, exchanges in traces(talkative):
        assert [exchange.output for exchange in exchanges[:MAX_CALLS]].count(BUDGET_USED_UP) == 0


def test_values_are_copied_without_a_slip_even_when_the_wrong_row_is_read() -> None:
    for world, _, exchanges in traces(Habits()):
        if exchanges[-1].text != "Answer: unknown":
            opened = calls(exchanges)[-1][1]
            assert exchanges[-1].text.removeprefix("Answer: ") in world.cat(opened).split("\n")


def test_needless_calls_cost_reward() -> None:
    """Otherwise nothing would teach a policy to leave them."""
    short, long = list[float](), list[float]()
    for _, question, exchanges in traces(Habits(), 1500):
        reward = grade(exchanges[-1].text, question.answer)
        (short if len(exchanges) <= 4 else long).append(reward)
    assert sum(short) / len(short) > 2 * sum(long) / len(long)


@pytest.mark.parametrize("amount", [-0.1, 0.1])
def test_shifted_habits_earn_about_that_much_more(amount: float) -> None:
    change = mean_reward(Habits().shifted(amount)) - mean_reward(Habits())
    assert 0.5 < change / amount < 2.5


def test_probabilities_stay_probabilities() -> None:
    for amount in (-2.0, 2.0):
        assert 0 < Habits().shifted(amount).focus < 1
        assert Habits().shifted(amount).query_year + Habits().query_metric > 0
