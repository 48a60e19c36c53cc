"""The formula of a multi grader: arithmetic as written on paper, and nothing else."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rft.grader_gateway.builtin.formula import FormulaError, formula_problem, parse_formula

NAMES = ("a", "b", "correct_answer")
SCORES = {"a": 2.0, "b": 3.0, "correct_answer": 0.5}

VALUES = [
    ("1", 1.0),
    ("a", 2.0),
    ("a + b * 2", 8.0),
    ("(a + b) * 2", 10.0),
    ("a - b - 1", -2.0),
    ("8 / 4 / 2", 1.0),
    ("2 ^ 3 ^ 2", 512.0),
    ("-2 ^ 2", -4.0),
    ("2 ^ -1", 0.5),
    ("(-2) ^ 2", 4.0),
    ("--a", 2.0),
    ("+a", 2.0),
    ("a*-b", -6.0),
    ("1e-9", 1e-9),
    ("1.5E+2", 150.0),
    (".5 + 2.", 2.5),
    ("min(a, b, correct_answer)", 0.5),
    ("max(a)", 2.0),
    ("abs(-a)", 2.0),
    ("floor(2.9) + ceil(2.1)", 5.0),
    ("exp(0)", 1.0),
    ("sqrt(a * 2 + 5)", 3.0),
    ("log(exp(a))", 2.0),
    ("0.7 * a + 0.3 * correct_answer", 1.55),
    ("\n max( 0 ,min(1,a/ (b+1e-9) ) )\t", 2 / (3 + 1e-9)),
    (" + ".join(["a"] * 900), 1800.0),
]


@pytest.mark.parametrize(("source", "value"), VALUES)
def test_a_formula_has_its_value(source: str, value: float) -> None:
    assert formula_problem(source, NAMES) is None
    assert parse_formula(source, NAMES).value(SCORES) == pytest.approx(value, rel=1e-12)


PROBLEMS = [
    ("", "found the end"),
    ("a +", "found the end"),
    ("a b", "unexpected 'b'"),
    ("a + + * b", "found '*'"),
    ("(a", "expected ')'"),
    ("a)", "unexpected ')'"),
    ("c", "no grader 'c'"),
    ("pow(a, 2)", "no function 'pow'"),
    ("__import__(a)", "no function"),
    ("'a'", "is not part"),
    ("a.real", "'.'"),
    ("a ** 2", "found '*'"),
    ("a % 2", "'%'"),
    ("a if b else 1", "unexpected 'if'"),
    ("min()", "expected a number"),
    ("log(a, 2)", "takes one argument"),
    ("max", "no grader 'max'"),
    ("a(1)", "no function 'a'"),
    ("1.2.3", "unexpected"),
    ("a == b", "'='"),
    ("(" * 500 + "a" + ")" * 500, "nested deeper"),
    ("2^" * 500 + "a", "nested deeper"),
    ("-" * 500 + "a", "nested deeper"),
    ("a+" * 5000 + "a", "longer than"),
]


@pytest.mark.parametrize(("source", "message"), PROBLEMS)
def test_what_is_no_formula_is_told_before_any_rollout(source: str, message: str) -> None:
    problem = formula_problem(source, NAMES)
    assert problem is not None
    assert message in problem


@pytest.mark.parametrize("nested", ["{}a", "a + {}a", "1 + {}(a)", "a * ({}a)"])
def test_signs_powers_and_parentheses_nest_fifty_deep_and_no_deeper(nested: str) -> None:
    room = 49 - nested.count("(")
    assert formula_problem(nested.format("-" * room), NAMES) is None
    assert "nested deeper than 50" in (formula_problem(nested.format("2^" * (room + 1)), NAMES) or "")


@pytest.mark.parametrize("name", ["my grader", "max", "1st", "a-b", "", "ünï"])
def test_a_grader_that_a_formula_cannot_name_is_a_problem(name: str) -> None:
    problem = formula_problem("1", [name])
    assert problem is not None
    assert repr(name) in problem


WITHOUT_VALUE = ["1 / (a - 2)", "0 ^ -1", "exp(1e9)", "10 ^ 400", "(-8) ^ (1/3)", "log(0)", "log(-1)", "sqrt(-1)",
                 "1e308 * 10", "1e999 - 1e999", "floor(1e999)"]  # fmt: skip


@pytest.mark.parametrize("source", WITHOUT_VALUE)
def test_no_finite_value_is_an_error_that_names_the_formula(source: str) -> None:
    formula = parse_formula(source, NAMES)
    with pytest.raises(FormulaError) as told:
        formula.value(SCORES)
    assert repr(source) in str(told.value)


def test_a_formula_knows_which_graders_it_uses() -> None:
    assert parse_formula("max(a, -a ^ 2) + 1", NAMES).names == {"a"}


NUMBERS = st.floats(min_value=0, max_value=1e6, allow_nan=False).map(repr)
EXPRESSIONS = st.recursive(
    NUMBERS | st.sampled_from(NAMES),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/^"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"{parts[0]}{parts[1]}{parts[2]}"),
        inner.map(lambda part: f"-({part})"),
        inner.map(lambda part: f"abs({part})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"max({','.join(parts)})"),
    ),
    max_leaves=8,
)


def real_abs(value: float | complex) -> float:
    """Python makes a number of a root that there is not among the real ones."""
    if isinstance(value, complex):
        raise TypeError("no real number")
    return abs(value)


@given(EXPRESSIONS)
@example("abs(((0.0 - 1.0) ^ 1.5))")
def test_arithmetic_is_pythons_arithmetic(source: str) -> None:
    formula = parse_formula(source, NAMES)
    try:
        expected = eval(source.replace("^", "**"), {"__builtins__": {"abs": real_abs, "max": max}}, dict(SCORES))
    except (ZeroDivisionError, OverflowError, TypeError):
        expected = math.nan
    if isinstance(expected, complex) or not math.isfinite(expected):
        with pytest.raises(FormulaError):
            formula.value(SCORES)
    else:
        assert formula.value(SCORES) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.text(alphabet="ab+-*/^(),. 1e9minx", max_size=60))
def test_any_text_is_a_formula_or_a_problem(source: str) -> None:
    try:
        value = parse_formula(source, ["a", "b"]).value({"a": 0.5, "b": 2.0})
    except FormulaError:
        return
    assert math.isfinite(value)
