"""FinQA's grader: one number, read as it stands, as a percentage or as a fraction."""

import pytest
from examples.finqa.grading import credit, numbers_in
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Answer: 34.0%", [34.0]),
        ("$ 1,234.5 million", [1234.5]),
        ("(12.5)", [-12.5]),
        ("(12.5%%) of (3", [-12.5, 3.0]),
        ("5)(", [5.0]),
        ("-3.2%", [-3.2]),
        (".5 and 1e-05", [0.5, 1e-05]),
        ("It rose.", []),
        ("page_72.pdf", []),
        ("34.", [34.0]),
        ("1,23", [1.0, 23.0]),
        ("1,2345", [1.0, 2345.0]),
        ("12.9M, $3.7bn (25.4bps) 3.7x", [12.9, 3.7, -25.4, 3.7]),
        ("12.9th 1,234.5th 4Q17 5e", []),
    ],
)
def test_numbers_are_read_as_accountants_write_them(text: str, numbers: list[float]) -> None:
    assert numbers_in(text) == numbers


@given(st.floats(-1e6, 1e6).filter(lambda e: abs(e) > 1e-3))
def test_credit_table(expected: float) -> None:
    assert credit(f"Answer: {expected}", expected) == 1.0
    assert credit(f"Answer: {expected * 100}", expected) == 1.0
    assert credit(f"Answer: {expected / 100}", expected) == 1.0
    assert credit(f"Answer: {expected * 1.0019:.12g}", expected) == 1.0
    assert credit(f"Answer: {expected * 1.009:.12g}", expected) == 0.5
    assert credit(f"Answer: {expected * 1.05:.12g}", expected) == 0.0
    assert credit(f"{expected} or 2 or 3", expected) == 0.0
    assert credit("", expected) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected", "earned"),
    [
        ("Answer: 12.9M", 12.9, 1.0),
        ("Answer: 12.9M", 12.0, 0.0),
        ("Answer: 3.7x", 3.0, 0.0),
        ("Answer: 25.4bps", 25.0, 0.0),
    ],
)
def test_a_unit_against_the_number_takes_nothing_from_it(answer: str, expected: float, earned: float) -> None:
    assert credit(answer, expected) == earned


@pytest.mark.parametrize(
    ("text", "expected", "earned"),
    [
        ("In 2017 revenue was 5.\nAnswer: 5", 5.0, 1.0),
        ("In 2017 revenue was 5.\nThe final ANSWER: 5", 5.0, 1.0),
        ("In 2017 revenue was 5.\n**Answer**: 5", 5.0, 1.0),
        ("In 2017 revenue was 5.\n**Answer:** 5", 5.0, 1.0),
        ("In 2017 revenue was 5.", 5.0, 0.0),
        ("Answer: 5\nAnswer: 6", 5.0, 0.0),
        ("Answer: 5 or 6", 5.0, 0.0),
        ("Answer: 5\nThat was in 2017.", 5.0, 0.0),
        ("5\nAnswer:", 5.0, 0.0),
        ("The margin rose.\nAnswer: yes", "yes", 1.0),
        ("\nAnswer: yes", "yes", 1.0),
        ("**Answer: yes**", "yes", 1.0),
        ("Answer: yes\nAnswer: no", "yes", 0.0),
        ("Answer: yes or no", "yes", 0.0),
    ],
)
def test_the_last_answer_counts_and_nothing_before_it(text: str, expected: float | str, earned: float) -> None:
    assert credit(text, expected) == earned


def test_yes_and_no_by_equality() -> None:
    assert credit("Answer: yes", "yes") == 1.0
    assert credit("Yes.", "yes") == 1.0
    assert credit("no", "yes") == 0.0
    assert credit("yes, probably", "yes") == 0.0
