"""`multi`: several graders at once, and a formula over their scores."""

import asyncio
from collections.abc import Mapping, Sequence

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade, PartOutcome, total_usage
from rft.core.graders import MultiGrader
from rft.grader_gateway.builtin.formula import FormulaError, parse_formula
from rft.grader_gateway.builtin.guarded import broke, no_score
from rft.grader_gateway.contract import GradedTrace
from rft.grader_gateway.grader import Grader, close_grader

FORMULA_ERROR = "formula_parse_error"
"""`Failure.detail` of a formula without a value: the contract's name."""


class Multi:
    """The multi grader of one job; `parts` are its graders by variable name. Raises FormulaError."""

    def __init__(self, spec: MultiGrader, parts: Mapping[str, Grader]) -> None:
        self._spec, self._parts = spec, dict(parts)
        self._formula = parse_formula(spec.calculate_output, self._parts)

    async def grade(self, trace: GradedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The formula's value; a part without a score leaves the whole without one."""
        verdicts = await asyncio.gather(
            *(part.grade(trace, item=item, trace_id=trace_id) for part in self._parts.values())
        )
        parts = {name: _part(verdict) for name, verdict in zip(self._parts, verdicts, strict=True)}
        spent = total_usage(part.usage for part in parts.values())
        failure = next((verdict for verdict in verdicts if isinstance(verdict, Failure)), None)
        if failure is None:
            outcome = self._combined_or_not([verdict for verdict in verdicts if isinstance(verdict, Grade)], trace_id)
        else:
            outcome = failure
        return outcome.model_copy(update={"parts": parts, "usage": spent})

    async def aclose(self) -> None:
        """End what its graders hold."""
        for part in self._parts.values():
            await close_grader(part)

    def _combined_or_not(self, grades: Sequence[Grade], trace_id: str) -> Grade | Failure:
        try:
            return self._combined(dict(zip(self._parts, grades, strict=True)))
        except FormulaError as error:
            words = f"has no value: {error}"
            return no_score(self._spec.name, FailureCode.GRADER_ERROR, words, detail=FORMULA_ERROR)
        except Exception as error:
            return broke(self._spec.name, trace_id, error)

    def _combined(self, grades: Mapping[str, Grade]) -> Grade:
        scores = {name: grade.reward for name, grade in grades.items()}
        return Grade(
            reward=self._formula.value(scores),
            scores=scores,
            grader=self._spec.name,
            latency_s=max((grade.latency_s for grade in grades.values()), default=0.0),
            attempts=max((grade.attempts for grade in grades.values()), default=1),
            model_errors=tuple(dict.fromkeys(error for grade in grades.values() for error in grade.model_errors)),
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
        score=verdict.reward, latency_s=verdict.latency_s, usage=verdict.usage, model_errors=verdict.model_errors
    )
