"""`multi`: several graders at once, and a formula over their scores."""

import asyncio
from collections.abc import Mapping

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import FORMULA_ERROR, SAMPLE_PARSE_ERROR, Grade, PartOutcome, score_problem, total_usage
from rft.core.graders import MultiGrader
from rft.grader_gateway.builtin.formula import FormulaError, FormulaTooLarge, parse_formula
from rft.grader_gateway.builtin.guarded import broke, out_of_bounds
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.grader_gateway.grader import Grader, close_grader


class Multi:
    """The multi grader of one job; `parts` are its graders by variable name. Raises FormulaError."""

    def __init__(self, spec: MultiGrader, parts: Mapping[str, Grader]) -> None:
        self._spec, self._parts = spec, dict(parts)
        self._formula = parse_formula(spec.calculate_output, self._parts)

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The formula's value.

        A part that could not judge the answer makes the whole grade the contract's, whatever the formula and the other
        parts say: as a 0 in `1 - errors` it would be the top reward. Else a part without a score leaves the whole
        without one.
        """
        verdicts = await asyncio.gather(
            *(part.grade(trace, item=item, trace_id=trace_id) for part in self._parts.values())
        )
        by_name = dict(zip(self._parts, verdicts, strict=True))
        parts = {name: _part(verdict) for name, verdict in by_name.items()}
        outcome = self._outcome(by_name, trace_id)
        spent = total_usage(part.usage for part in parts.values())
        return outcome.model_copy(update={"parts": parts, "usage": spent})

    async def grade_misfit(self, trace: FinishedTrace, problem: str, *, item: JsonObject, trace_id: str) -> Grade:
        """The grade of an answer that does not fit `response_format`: endpoints are told, and none is heeded."""
        endpoints = {name: part for name, part in self._parts.items() if isinstance(part, HttpGraderGateway)}
        called = await asyncio.gather(*(part.tell(trace, item=item, trace_id=trace_id) for part in endpoints.values()))
        verdicts = dict(zip(endpoints, called, strict=True))
        skipped = PartOutcome(model_errors=(SAMPLE_PARSE_ERROR,), error_details=problem)
        parts = {name: _part(verdicts[name]) if name in verdicts else skipped for name in self._parts}
        return self._invalid(verdicts, (SAMPLE_PARSE_ERROR,), problem).model_copy(update={"parts": parts})

    async def aclose(self) -> None:
        """End what its graders hold."""
        for part in self._parts.values():
            await close_grader(part)

    def _outcome(self, verdicts: Mapping[str, Grade | Failure], trace_id: str) -> Grade | Failure:
        graded = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Grade)}
        invalid = {name: grade for name, grade in graded.items() if grade.is_invalid}
        if invalid:
            errors = dict.fromkeys(error for grade in invalid.values() for error in grade.model_errors)
            details = "\n".join(grade.error_details or "" for grade in invalid.values())
            return self._invalid(verdicts, tuple(errors), details)
        failure = next((verdict for verdict in verdicts.values() if isinstance(verdict, Failure)), None)
        if failure is not None:
            return failure
        try:
            return self._combined(graded)
        except FormulaTooLarge as error:
            return out_of_bounds(self._spec.name, str(error))
        except FormulaError as error:
            return self._invalid(verdicts, (FORMULA_ERROR,), f"grader {self._spec.name!r} has no value: {error}")
        except Exception as error:
            return broke(self._spec.name, trace_id, error)

    def _combined(self, grades: Mapping[str, Grade]) -> Grade | Failure:
        scores = {name: grade.reward for name, grade in grades.items()}
        reward = self._formula.value(scores)
        if problem := score_problem(reward):
            return out_of_bounds(self._spec.name, problem)
        return self._grade(
            grades,
            reward=reward,
            model_errors=tuple(dict.fromkeys(error for grade in grades.values() for error in grade.model_errors)),
        )

    def _invalid(self, verdicts: Mapping[str, Grade | Failure], errors: tuple[str, ...], details: str) -> Grade:
        """The contract's grade, with the scores that there are."""
        grades = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Grade)}
        return self._grade(
            grades,
            reward=self._spec.grade_of_invalid,
            model_errors=errors,
            error_details=details,
            is_invalid=True,
        )

    def _grade(
        self,
        grades: Mapping[str, Grade],
        *,
        reward: float,
        model_errors: tuple[str, ...],
        error_details: str | None = None,
        is_invalid: bool = False,
    ) -> Grade:
        return Grade(
            reward=reward,
            scores={name: grade.reward for name, grade in grades.items()},
            grader=self._spec.name,
            latency_s=max((grade.latency_s for grade in grades.values()), default=0.0),
            attempts=max((grade.attempts for grade in grades.values()), default=0),
            model_errors=model_errors,
            error_details=error_details,
            is_invalid=is_invalid,
        )


def _part(verdict: Grade | Failure) -> PartOutcome:
    if isinstance(verdict, Failure):
        return PartOutcome(
            failure_code=verdict.code.value,
            failure_detail=verdict.detail,
            failure_message=verdict.message,
            latency_s=verdict.elapsed_s,
            usage=verdict.usage,
        )
    return PartOutcome(
        score=verdict.reward,
        latency_s=verdict.latency_s,
        usage=verdict.usage,
        model_errors=verdict.model_errors,
        error_details=verdict.error_details,
        request=verdict.request,
        reply=verdict.reply,
    )
