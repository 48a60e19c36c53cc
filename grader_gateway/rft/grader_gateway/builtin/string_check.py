"""`string_check`: two rendered texts compared, 1 or 0."""

from typing import Literal, assert_never

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import StringCheckGrader
from rft.grader_gateway.builtin.guarded import NoScore, Score, graded, unrendered
from rft.grader_gateway.contract import to_item, to_sample
from rft.grader_gateway.templates import Unrenderable, parse, render_all

Operation = Literal["eq", "ne", "like", "ilike"]


def holds(operation: Operation, text: str, reference: str) -> bool:
    """Whether `text operation reference` is true."""
    match operation:
        case "eq":
            return text == reference
        case "ne":
            return text != reference
        case "like":
            return reference in text
        case "ilike":
            return reference.casefold() in text.casefold()
        case _:
            assert_never(operation)


class StringCheck:
    """The string check of one job. Raises TemplateError for a template that is none."""

    def __init__(self, spec: StringCheckGrader) -> None:
        self._spec = spec
        self._templates = (parse(spec.input), parse(spec.reference))

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """1 where the comparison holds, else 0."""

        async def compare() -> Score | NoScore | Failure:
            rendered = render_all(self._templates, sample=to_sample(trace), item=to_item(item))
            if isinstance(rendered, Unrenderable):
                return unrendered(self._spec.name, rendered)
            text, reference = rendered
            return Score(float(holds(self._spec.operation, text, reference)))

        return await graded(self._spec.name, trace_id, compare, invalid_grade=self._spec.grade_of_invalid)
