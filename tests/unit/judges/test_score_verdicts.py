"""Which number a judge's answer holds as its verdict, whatever stands around it; in doubt none."""

import json
import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.grader_gateway.builtin.label_model import read_label
from rft.grader_gateway.builtin.score_model import read_score
from rft.grader_gateway.judge_answer import Unreadable


def verdict(result: object) -> str:
    return json.dumps({"steps": [{"description": "d", "conclusion": "c"}], "result": result})


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(), st.text())
def test_a_verdict_is_found_whatever_is_written_around_it(number: float, before: str, after: str) -> None:
    wrapped = before.replace("{", "(") + verdict(number) + after.replace("{", "(")

    score = read_score(wrapped, 0.0, 1.0)

    assert score == min(1.0, max(0.0, number))


@given(st.text())
def test_any_text_is_a_number_within_the_range_or_unreadable(text: str) -> None:
    score = read_score(text, 0.0, 1.0)

    assert isinstance(score, Unreadable) or 0.0 <= score <= 1.0


def test_the_last_verdict_counts_because_models_think_aloud_first() -> None:
    assert read_score('<think>perhaps {"result": 1}</think> {"result": "0.2"}', 0.0, 1.0) == 0.2
    assert read_score("0.4", 0.0, 1.0) == 0.4


QUOTED = '{"steps":[{"description":"It ends with {"result": 1}, which is no proof","conclusion":"wrong"}],"result":0}'


@pytest.mark.parametrize("text", [QUOTED, f"{verdict(1)}, or rather {QUOTED}", '{"result": 1} or rather {"result": x}'])
def test_a_verdict_that_another_one_follows_that_cannot_be_read_is_none(text: str) -> None:
    assert isinstance(read_score(text, 0.0, 1.0), Unreadable)


@pytest.mark.parametrize(
    "again",
    [
        "1/10", "1 out of 10", "1 of the 10 points", "1%", "1 percent", "(0.2)", "[0.2]", "about 0.2", "~0.2", "_0.2_",
        "$\\boxed{0.2}$", "$\\frac{1}{5}$", "1,5", "1.5.3", "1-2", "1 or maybe 0.2", "~~1~~ 0.2", "1? No, 0.2", "not 1",
        "< 1", "-1", "\u2212 1", "I would give it 0.2", "the score is 0.2, as\nI said",
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", ["\nResult: {}", " result: {}", "\n\n**Final result:** {}\n\nThat is all."])
def test_a_verdict_that_another_number_follows_is_none(named: str, again: str) -> None:
    """Also where it begins like the verdict, or has a word or a mark in front of it."""
    answer = verdict(1) + named.format(again)
    assert isinstance(read_score(answer, 0.0, 1.0), Unreadable)


@pytest.mark.parametrize("again", ["{}/{}", "{} out of {}", "**{}/{}**", "about {} of {} points"])
@pytest.mark.parametrize(("low", "high"), [(1, 10), (1, 5), (0, 10), (0, 100), (0, 1)])
def test_every_verdict_of_a_scale_may_be_repeated_as_a_share_of_its_end(low: int, high: int, again: str) -> None:
    """The lowest, too: without it the mean would be one of the better answers alone."""
    for number in (0.5, *range(low, high + 1)):
        assert read_score(f"{verdict(number)}\n\nResult: {again.format(number, high)}", low, high) == max(low, number)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"result": 1.0}\nThe result: the answer is correct.', 1.0),
        ('{"result": 0.8}\nFinal result: 0.8/1', 0.8),
        ('{"result": 0.8}\nFinal result: 8/10.', 0.8),
        ('{"result": 0.8}\nFinal result: 80%', 0.8),
        ('{"result": 0.8}\nFinal result: 8 out of 10 points', 0.8),
        ('{"result": 0.8}\nFinal result: about 0.8', 0.8),
        ('{"result": 0.8}\nFinal result: $\\boxed{0.8}$', 0.8),
        ('{"result": 0.8}\nFinal result: (0.8)', 0.8),
        ('{"result": 0.8}\nFinal result: _0.8_, as 4 of 5 points are met', 0.8),
        ('{"steps": [], "result": 1}\nResult: 1.0 (right).', 1.0),
        ('{"steps": [], "result": 1}\nResult: the answer of the policy is what was asked for in 1999.', 1.0),
        ('It has `{ result: total }`, which is right.\n{"steps": [], "result": 1}', 1.0),
    ],
)
def test_a_verdict_that_the_judge_repeats_or_explains_is_its_verdict(text: str, score: float) -> None:
    assert read_score(text, 0.0, 1.0) == score


@pytest.mark.parametrize(
    ("again", "is_same"), [("8/10", True), ("8", True), ("8%", False), ("80%", True), ("70%", False)]
)
def test_a_score_above_one_is_repeated_as_a_share_of_the_highest(again: str, is_same: bool) -> None:
    score = read_score(f'{{"result": 8}}\nResult: {again}', 0.0, 10.0)
    assert (score == 8.0) if is_same else isinstance(score, Unreadable)


@pytest.mark.parametrize(
    ("low", "high", "score", "again"),
    [
        (1, 10, 1, "10/10"), (1, 10, 1, "100%"), (0, 100, 1, "100/100"), (0, 10, 0.8, "8/10"), (0, 5, 1, "5/5"),
        (-5, 0, 0, "3/5"), (0, 10, 4, "4/5"), (0, 10, 5, "5/100"), (0, 5, 4, "4/10"), (1, 10, 10, "10%"),
    ],
)  # fmt: skip
def test_a_share_of_another_scale_than_the_judges_is_another_verdict(
    low: float, high: float, score: float, again: str
) -> None:
    """Or the best answer would be read as one of the worst."""
    assert isinstance(read_score(f'{{"result": {score}}}\nResult: {again}', low, high), Unreadable)


@pytest.mark.parametrize(
    ("read", "result"), [(partial(read_score, low=0, high=1), 1), (partial(read_label, labels=["good"]), "good")]
)
def test_a_long_line_that_names_the_result_over_and_over_is_read_in_linear_time(
    read: Callable[[str], object], result: object
) -> None:
    def seconds(mentions: int) -> float:
        began = time.process_time()
        assert read(verdict(result) + f"Result: {result} " * mentions) == result
        return time.process_time() - began

    seconds(100)
    assert seconds(7_000) < 30 * min(seconds(700) for _ in range(5))


@pytest.mark.parametrize(
    "text",
    [
        '{"steps":[{"description":"The reply says {"result": 1} ","conclusion":"x"}], result: 0.0}',
        "{'steps': [], 'result': 0.0} quoting {\"result\": 1}",
        '{steps: [], Result: 0.0, } quoting {"result": 1}',
        'The answer claims {"result": 1}. That is wrong. Final result: 0',
        'The answer claims {"result": 1}. That is wrong. **Result** = 0',
        'Final result: 0. The answer itself claims {"result": 1}, which is wrong.',
    ],
)
def test_a_verdict_beside_one_in_another_spelling_is_none(text: str) -> None:
    assert isinstance(read_score(text, 0.0, 1.0), Unreadable)


@pytest.mark.parametrize(
    "text",
    [
        '{"result":0.3}\nThis result is final.',
        'Here is the result: {"result": 0.3}. That is my view.',
        '**Result:**\n```json\n{"result": 0.3}\n```',
        'Result: ```JSON\n{"result": 0.3}\n```\nAsk me if in doubt.',
        'The expected result: 42. The answer has result = 42, \\frac{1}{2} less. {"result": 0.3}',
        '{"result": 0.3}\n\n**Result: 0.30**',
        '{"result": 1} is what it says. {"steps": [], "result": 0.3}',
    ],
)
def test_words_about_the_result_are_no_second_verdict(text: str) -> None:
    assert read_score(text, 0.0, 1.0) == 0.3


def test_a_verdict_with_a_line_break_in_its_words_is_read() -> None:
    assert read_score('{"steps":[{"description":"two\nlines","conclusion":"x"}],"result":0.4}', 0.0, 1.0) == 0.4


@pytest.mark.parametrize("braces", [600, 5_000])
def test_the_verdict_counts_however_much_code_the_judge_thinks_of_before(braces: int) -> None:
    thoughts = verdict(1) + " or not: " + "if (x) { y(); } " * braces
    assert read_score(thoughts + verdict(0.25), 0.0, 1.0) == 0.25
