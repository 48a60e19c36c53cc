"""`text_similarity`: how alike two rendered texts are, in [0, 1]."""

import asyncio

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import SAMPLE_PARSE_ERROR, Grade
from rft.core.graders import TextSimilarityGrader
from rft.grader_gateway.builtin.guarded import NoScore, Score, graded, no_score, unrendered
from rft.grader_gateway.builtin.similarity import UNSUPPORTED_METRICS, TextsTooLong, is_comparable, similarity
from rft.grader_gateway.contract import to_item, to_sample
from rft.grader_gateway.templates import ANSWER, Unrenderable, parse, render_all, without


class TextSimilarity:
    """The text similarity of one job. Raises ValueError for an unsupported metric or a template that is none."""

    def __init__(self, spec: TextSimilarityGrader) -> None:
        self._spec = spec
        self._templates = (parse(spec.input), parse(spec.reference))
        if reason := UNSUPPORTED_METRICS.get(spec.evaluation_metric):
            raise ValueError(f"{spec.evaluation_metric}: {reason}")

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The similarity of input and reference."""

        async def compare() -> Score | NoScore | Failure:
            sample, row = to_sample(trace), to_item(item)
            rendered = render_all(self._templates, sample=sample, item=row)
            if isinstance(rendered, Unrenderable):
                return unrendered(self._spec.name, rendered)
            # Off the event loop: long texts, and the first import, take their time.
            try:
                return Score(await asyncio.to_thread(similarity, self._spec.evaluation_metric, *rendered))
            except TextsTooLong as error:
                if await asyncio.to_thread(self._is_answers_doing, sample, row):
                    return NoScore(SAMPLE_PARSE_ERROR, str(error))
                return no_score(self._spec.name, FailureCode.OVERSIZE_REQUEST, str(error))

        return await graded(self._spec.name, trace_id, compare, invalid_grade=self._spec.grade_of_invalid)

    def _is_answers_doing(self, sample: JsonObject, row: JsonObject) -> bool:
        """Whether an answer as long as what it is held against could be compared."""
        others = render_all([without(ANSWER, template) for template in self._templates], sample=sample, item=row)
        metric = self._spec.evaluation_metric
        return not isinstance(others, Unrenderable) and all(is_comparable(metric, one, one) for one in others)
