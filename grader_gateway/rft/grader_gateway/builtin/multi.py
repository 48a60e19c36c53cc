"""`multi`: several graders at once, and a formula over their scores."""

import asyncio
from collections.abc import Mapping, Sequence

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade, TokenUsage
from rft.core.graders import MultiGrader
from rft.grader_gateway.builtin.formula import FormulaError, parse_formula
from rft.grader_gateway.builtin.guarded import broke, no_score
from rft.grader_gateway.contract import GradedTrace
from rft.grader_gateway.grader import Grader, close_grader


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
        grades = [verdict for verdict in verdicts if isinstance(verdict, Grade)]
        failures = [verdict for verdict in verdicts if isinstance(verdict, Failure)]
        if failures:
            return failures[0]
        try:
            return self._combined(dict(zip(self._parts, grades, strict=True)))
        except FormulaError as error:
            words = f"has no value: {error}"
            return no_score(self._spec.name, FailureCode.GRADER_ERROR, words, detail="formula_parse_error")
        except Exception as error:
            return broke(self._spec.name, trace_id, error)

    async def aclose(self) -> None:
        """End what its graders hold."""
        for part in self._parts.values():
            await close_grader(part)

    def _combined(self, grades: Mapping[str, Grade]) -> Grade:
        scores = {name: grade.reward for name, grade in grades.items()}
        return Grade(
            reward=self._formula.value(scores),
            scores=scores,
            grader=self._spec.name,
            latency_s=max((grade.latency_s for grade in grades.values()), default=0.0),
            attempts=max((grade.attempts for grade in grades.values()), default=1),
            usage=_usage([grade.usage for grade in grades.values()]),
            model_errors=tuple(dict.fromkeys(error for grade in grades.values() for error in grade.model_errors)),
        )


def _usage(parts: Sequence[Mapping[str, TokenUsage]]) -> dict[str, TokenUsage]:
    total: dict[str, TokenUsage] = {}
    for part in parts:
        for model, usage in part.items():
            total[model] = total.get(model, TokenUsage()) + usage
    return total
