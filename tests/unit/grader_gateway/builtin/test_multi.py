"""`multi`: all parts at once, one formula, every part's own score kept."""

import asyncio
from collections.abc import Mapping

import pytest

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade, PartOutcome, TokenUsage
from rft.core.graders import MultiGrader, StringCheckGrader
from rft.grader_gateway.builtin.formula import FormulaError
from rft.grader_gateway.builtin.multi import Multi
from rft.grader_gateway.builtin.string_check import StringCheck
from rft.rollouts.failure_actions import FailureAction, action_for
from tests.shared.finished import finished


class Part:
    """A grader that says what it is told to, once all of its fellows were asked."""

    def __init__(self, verdict: Grade | Failure, all_asked: asyncio.Barrier | None = None) -> None:
        self.verdict, self.all_asked, self.is_closed = verdict, all_asked, False

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        if self.all_asked is not None:
            await self.all_asked.wait()
        return self.verdict

    async def aclose(self) -> None:
        self.is_closed = True


def grade(value: float, **more: object) -> Grade:
    return Grade.model_validate({"reward": value, "scores": {"inner": value}, "grader": "inner", **more})


def failure(code: FailureCode = FailureCode.TIMEOUT) -> Failure:
    return Failure(stage=Stage.GRADER, code=code, message="no", endpoint="inner")


def multi(formula: str, **parts: Part) -> Multi:
    return multi_or(0.0, formula, parts)


def multi_or(invalid: float, formula: str, parts: Mapping[str, Part]) -> Multi:
    of_no_account = StringCheckGrader(name="x", input="", reference="", operation="eq")
    spec = MultiGrader(
        name="both",
        graders=dict.fromkeys(parts, of_no_account),
        calculate_output=formula,
        invalid_grade=invalid,
    )
    return Multi(spec, parts)


async def judged(grader: Multi) -> Grade | Failure:
    return await grader.grade(finished(), item={}, trace_id="t")


async def test_the_formula_is_the_reward_and_every_score_is_kept() -> None:
    verdict = await judged(multi("0.5 * a + b", a=Part(grade(1.0)), b=Part(grade(-2.0))))
    assert isinstance(verdict, Grade)
    assert (verdict.reward, verdict.scores, verdict.grader) == (-1.5, {"a": 1.0, "b": -2.0}, "both")


async def test_what_each_part_said_is_kept() -> None:
    verdict = await judged(multi("a + b", a=Part(grade(1.0, reply='{"why": "right"}')), b=Part(grade(0.0))))
    assert isinstance(verdict, Grade)
    assert {name: part.reply for name, part in verdict.parts.items()} == {"a": '{"why": "right"}', "b": None}
    assert verdict.reply is None


async def test_all_parts_are_asked_at_once() -> None:
    all_asked = asyncio.Barrier(3)
    parts = {name: Part(grade(1.0), all_asked) for name in "abc"}
    async with asyncio.timeout(60):
        assert isinstance(await judged(multi("a + b + c", **parts)), Grade)


async def test_tokens_and_model_errors_of_the_parts_are_put_together() -> None:
    spent = {"gpt": TokenUsage(prompt_tokens=3, completion_tokens=1)}
    more = {"gpt": TokenUsage(prompt_tokens=4), "other": TokenUsage(cached_tokens=5)}
    a = Part(grade(0.0, usage=spent, model_errors=("sample_parse_error",), attempts=3, latency_s=2.0))
    b = Part(grade(0.0, usage=more, model_errors=("sample_parse_error", "other"), latency_s=1.0))
    verdict = await judged(multi("a + b", a=a, b=b))
    assert isinstance(verdict, Grade)
    assert verdict.usage == {
        "gpt": TokenUsage(prompt_tokens=7, completion_tokens=1),
        "other": TokenUsage(cached_tokens=5),
    }
    assert verdict.model_errors == ("sample_parse_error", "other")
    assert (verdict.attempts, verdict.latency_s) == (3, 2.0)


async def test_a_part_without_a_score_leaves_the_whole_without_one() -> None:
    verdict = await judged(multi("a", a=Part(grade(1.0)), b=Part(failure())))
    assert isinstance(verdict, Failure)
    assert verdict.model_copy(update={"parts": {}}) == failure()


async def test_what_the_parts_came_to_is_told_when_another_part_fails() -> None:
    paid, lost = TokenUsage(prompt_tokens=30, completion_tokens=3), TokenUsage(prompt_tokens=10)
    scored = grade(0.5, usage={"gpt": paid}, model_errors=("sample_parse_error",), latency_s=2.0)
    failed = failure().model_copy(update={"usage": {"gpt": lost}, "elapsed_s": 4.0})
    verdict = await judged(multi("a + b + c", a=Part(scored), b=Part(failed), c=Part(failure(FailureCode.TLS_ERROR))))
    assert isinstance(verdict, Failure)
    assert (verdict.code, verdict.usage) == (FailureCode.TIMEOUT, {"gpt": paid + lost})
    assert verdict.parts == {
        "a": PartOutcome(score=0.5, latency_s=2.0, usage={"gpt": paid}, model_errors=("sample_parse_error",)),
        "b": PartOutcome(failure_code="timeout", failure_message=failure().message, latency_s=4.0, usage={"gpt": lost}),
        "c": PartOutcome(failure_code="tls_error", failure_message=failure().message),
    }


async def test_every_part_of_a_grade_keeps_its_own_time_and_tokens() -> None:
    spent = {"gpt": TokenUsage(prompt_tokens=3)}
    verdict = await judged(multi("a + b", a=Part(grade(1.0, usage=spent, latency_s=2.0)), b=Part(grade(0.0))))
    assert isinstance(verdict, Grade)
    assert (verdict.parts["a"].latency_s, verdict.parts["b"].latency_s) == (2.0, 0.0)
    assert (verdict.parts["a"].usage, verdict.parts["b"].usage, verdict.usage) == (spent, {}, spent)


@pytest.mark.parametrize("invalid_grade", [0.0, -2.5])
@pytest.mark.parametrize("formula", ["1 / a", "log(a)", "a ^ -1"])
async def test_a_formula_without_a_value_is_the_contracts_grade_and_says_why(
    formula: str, invalid_grade: float
) -> None:
    verdict = await judged(multi_or(invalid_grade, formula, {"a": Part(grade(0.0))}))
    assert isinstance(verdict, Grade)
    assert (verdict.reward, verdict.is_invalid, verdict.model_errors) == (invalid_grade, True, ("formula_parse_error",))
    assert repr(formula) in (verdict.error_details or "")
    assert verdict.scores == {"a": 0.0}
    assert verdict.parts["a"].failure_code is None


@pytest.mark.parametrize("formula", ["10 ^ (400 + a)", "10 ^ 200 + a", "-(10 ^ 15.1) - a", "exp(1000) + a"])
async def test_a_value_beyond_all_scores_is_a_failure_that_no_waiting_heals(formula: str) -> None:
    verdict = await judged(multi_or(-1.0, formula, {"a": Part(grade(0.0))}))
    assert isinstance(verdict, Failure)
    assert (verdict.code, verdict.fault, verdict.endpoint) == (FailureCode.INVALID_SCORE, Fault.ENDPOINT, "both")
    assert action_for(verdict) is FailureAction.FAIL_JOB


RAISED = grade(0.0, is_invalid=True, model_errors=("python_grader_runtime_error",), error_details="raised KeyError")


async def test_a_part_that_raised_never_enters_the_formula() -> None:
    verdict = await judged(multi("1 - errors + other", errors=Part(RAISED), other=Part(grade(0.5))))
    assert isinstance(verdict, Grade)
    assert (verdict.reward, verdict.is_invalid) == (0.0, True)
    assert verdict.model_errors == ("python_grader_runtime_error",)
    assert verdict.error_details == "raised KeyError"
    assert verdict.scores == {"errors": 0.0, "other": 0.5}
    assert verdict.parts["errors"].error_details == "raised KeyError"


async def test_a_part_whose_template_the_answer_does_not_fill_never_enters_the_formula_either() -> None:
    rude = StringCheckGrader(name="rude", input="{{ sample.output_json.tone }}", reference="rude", operation="eq")
    spec = MultiGrader(name="both", graders={"rude": rude}, calculate_output="1 - rude", invalid_grade=-0.5)
    verdict = await Multi(spec, {"rude": StringCheck(rude)}).grade(finished("no JSON"), item={}, trace_id="t")
    assert isinstance(verdict, Grade)
    assert (verdict.reward, verdict.is_invalid, verdict.model_errors) == (-0.5, True, ("sample_parse_error",))
    assert "'sample.output_json.tone'" in (verdict.error_details or "")
    assert verdict.scores == {"rude": 0.0}


async def test_a_part_that_raised_decides_whatever_another_part_failed_in() -> None:
    verdict = await judged(multi_or(-3.0, "a + b", {"a": Part(RAISED), "b": Part(failure())}))
    assert isinstance(verdict, Grade)
    assert verdict.reward == -3.0
    assert verdict.parts["b"].failure_code == "timeout"


async def test_what_the_parts_hold_is_freed() -> None:
    parts = {"a": Part(grade(1.0)), "b": Part(grade(1.0))}
    await multi("a", **parts).aclose()
    assert all(part.is_closed for part in parts.values())


def test_a_formula_over_unknown_graders_is_refused() -> None:
    with pytest.raises(FormulaError, match="no grader 'b'"):
        multi("a + b", a=Part(grade(1.0)))
