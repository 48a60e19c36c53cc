"""Answers that do not fit the job's `response_format`: graded by the contract's rule, whatever the grader would say."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import SAMPLE_PARSE_ERROR, Grade, PartOutcome
from rft.core.graders import GraderSpec, MultiGrader, RulerGrader
from rft.core.response_format import ResponseFormat
from rft.core.schema_fit import SchemaFit
from rft.grader_gateway.builtin.guarded import broke, invalid
from rft.grader_gateway.builtin.multi import Multi
from rft.grader_gateway.contract import answer_of, read_json
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.grader_gateway.grader import Grader, GroupGrader, close_grader

_log = logging.getLogger(__name__)


class AnswerFormat:
    """Judges whether an answer is what was asked for. Raises ValueError for a schema that is none."""

    def __init__(self, wanted: ResponseFormat) -> None:
        try:
            self._fit = None if wanted.json_schema is None else SchemaFit.compiled(wanted.json_schema)
        except RftError as error:
            raise ValueError(f"response_format: its schema is {error}") from error

    def problem(self, answer: str) -> str | None:
        """Why the answer does not fit; None where it does. Nothing but JSON is JSON: no fences, no words around it."""
        try:
            value = read_json(answer)
        except RecursionError:
            return "the answer is nested too deeply"
        except ValueError as error:
            return f"the answer is not JSON: {error}" if answer.strip() else "the answer is empty"
        if self._fit is None:
            return None if isinstance(value, dict) else "the answer is JSON, but no object"
        try:
            misfit = self._fit.misfit(value)
        except RecursionError:
            return "the answer is nested too deeply"
        if misfit is None:
            return None
        return f"the answer does not fit the schema{f' at {misfit.place}' if misfit.place else ''}: {misfit.message}"


class Misfits:
    """Which answers of a job do not fit, and their grade. Raises ValueError as `AnswerFormat` does."""

    def __init__(self, spec: GraderSpec, wanted: ResponseFormat) -> None:
        self._spec, self._format = spec, AnswerFormat(wanted)

    @classmethod
    def of(cls, spec: GraderSpec, wanted: ResponseFormat | None) -> "Misfits | None":
        """None where any answer fits. Raises ValueError as `AnswerFormat` does."""
        return None if wanted is None else cls(spec, wanted)

    def problem(self, trace: FinishedTrace) -> str | None:
        """Why its answer does not fit; None where it does."""
        return self._format.problem(answer_of(trace))

    def standing_grade(self, trace: FinishedTrace) -> Grade | None:
        """The contract's grade of an answer that does not fit; None of one that does. Never raises."""
        try:
            problem = self.problem(trace)
        except Exception:
            _log.exception("whether an answer fits broke on our side")
            return None
        return None if problem is None else misfit_grade(self._spec, problem)


class GradesWhatFits:
    """A grader that judges answers that fit.

    The others get the contract's grade. Endpoints are told of them all the same, because they may free there what
    they hold for the rollout; what they say is recorded and changes nothing.
    """

    def __init__(self, grader: Grader, spec: GraderSpec, wanted: ResponseFormat) -> None:
        self._grader, self._spec, self._misfits = grader, spec, Misfits(spec, wanted)

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The verdict. Never raises but for cancellation."""
        try:
            problem = self._misfits.problem(trace)
            trace = replace(trace, has_json=problem is None)
            if problem is not None:
                return await self._grade_misfit(trace, problem, item, trace_id)
        except Exception as error:
            return broke(self._spec.name, trace_id, error)
        return await self._grader.grade(trace, item=item, trace_id=trace_id)

    def standing_grade(self, trace: FinishedTrace) -> Grade | None:
        """The grade of an answer that does not fit, whoever does not answer; else None. Never raises."""
        return self._misfits.standing_grade(trace)

    async def aclose(self) -> None:
        """Free what the grader holds."""
        await close_grader(self._grader)

    async def _grade_misfit(self, trace: FinishedTrace, problem: str, item: JsonObject, trace_id: str) -> Grade:
        if isinstance(self._grader, Multi):
            return await self._grader.grade_misfit(trace, problem, item=item, trace_id=trace_id)
        skipped = misfit_grade(self._spec, problem)
        if not isinstance(self._grader, HttpGraderGateway):
            return skipped
        said = await self._grader.tell(trace, item=item, trace_id=trace_id)
        if isinstance(said, Failure):
            return skipped.model_copy(update={"error_details": f"{problem}\n{said.message}"})
        heard = {"scores": said.scores, "latency_s": said.latency_s, "attempts": said.attempts}
        return skipped.model_copy(update=heard)


class RanksWhatFits:
    """A grader that ranks the answers of a group that fit, among themselves; the others get the contract's grade."""

    def __init__(self, grader: GroupGrader, spec: RulerGrader, wanted: ResponseFormat) -> None:
        self._grader, self._spec, self._format = grader, spec, AnswerFormat(wanted)

    async def rank(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> list[Grade] | Failure:
        """One grade per trace, in order, or why those that fit have none. Never raises but for cancellation."""
        try:
            problems = [self._format.problem(answer_of(trace)) for trace in traces]
        except Exception as error:
            return broke(self._spec.name, ", ".join(trace_ids), error)
        fitting = [place for place, problem in enumerate(problems) if problem is None]
        ranked = await self._grader.rank(
            [traces[place] for place in fitting], item=item, trace_ids=[trace_ids[place] for place in fitting]
        )
        if isinstance(ranked, Failure):
            return ranked
        grades = iter(ranked)
        return [next(grades) if problem is None else misfit_grade(self._spec, problem) for problem in problems]


def as_graded(trace: FinishedTrace, wanted: ResponseFormat | None) -> FinishedTrace:
    """The trace as graders of a job with this `response_format` see it. Raises ValueError as `AnswerFormat` does."""
    fits = wanted is not None and AnswerFormat(wanted).problem(answer_of(trace)) is None
    return replace(trace, has_json=fits)


def misfit_grade(spec: GraderSpec, problem: str) -> Grade:
    """The contract's grade of an answer that does not fit, which nobody judged."""
    grade = invalid(spec.name, spec.grade_of_invalid, SAMPLE_PARSE_ERROR, problem)
    if not isinstance(spec, MultiGrader):
        return grade.model_copy(update={"attempts": 0})
    skipped = PartOutcome(model_errors=(SAMPLE_PARSE_ERROR,), error_details=problem)
    return grade.model_copy(update={"attempts": 0, "scores": {}, "parts": dict.fromkeys(spec.graders, skipped)})
