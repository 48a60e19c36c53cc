"""From a grader's specification to the grader: every kind, made in one place."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import (
    EndpointGrader,
    GraderSpec,
    JudgeServer,
    LabelModelGrader,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    ScoreModelGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from rft.core.response_format import ResponseFormat
from rft.core.spec import RunSecrets
from rft.egress.endpoint_client import EndpointClient
from rft.grader_gateway.answer_format import GradesWhatFits, RanksWhatFits
from rft.grader_gateway.builtin.label_model import LabelModelJudge
from rft.grader_gateway.builtin.multi import Multi
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.builtin.python_source import source_problem
from rft.grader_gateway.builtin.ruler import Ruler
from rft.grader_gateway.builtin.sandbox.slots import SlotShare
from rft.grader_gateway.builtin.score_model import ScoreModelJudge
from rft.grader_gateway.builtin.string_check import StringCheck
from rft.grader_gateway.builtin.text_similarity import TextSimilarity
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.grader_gateway.grader import Grader, GroupGrader, close_grader


def refuse_bad_sources(spec: GraderSpec) -> None:
    """Python sources that cannot grade on this machine, told before a run. Takes its time. Raises ValueError."""
    for part in spec.graders.values() if isinstance(spec, MultiGrader) else (spec,):
        if isinstance(part, PythonGrader) and (problem := source_problem(part.source)):
            raise ValueError(f"grader {part.name!r}: {problem}")


@dataclass(frozen=True, slots=True)
class OpenGrader:
    """A job's grader, ready to judge: one of the two. Close it when the job is done."""

    single: Grader | None = None
    """Judges each rollout alone."""
    group: GroupGrader | None = None
    """Ranks whole groups."""

    async def grade_group(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> Sequence[Grade | Failure]:
        """One outcome per rollout of a row, in order. Never raises but for cancellation."""
        if self.group is not None:
            ranked = await self.group.rank(traces, item=item, trace_ids=trace_ids)
            return ranked.shared_by(len(traces)) if isinstance(ranked, Failure) else ranked
        single = self.single
        assert single is not None, "one of both is open"
        pairs = zip(traces, trace_ids, strict=True)
        return await asyncio.gather(*(single.grade(trace, item=item, trace_id=trace_id) for trace, trace_id in pairs))

    async def aclose(self) -> None:
        """Free what it holds."""
        for grader in (self.single, self.group):
            if grader is not None:
                await close_grader(grader)


def open_any_grader(
    spec: GraderSpec,
    *,
    client: EndpointClient,
    secrets: RunSecrets,
    judge: JudgeServer | None,
    job_id: str,
    response_format: ResponseFormat | None = None,
    share: SlotShare | None = None,
) -> OpenGrader:
    """The grader of one job, of whichever kind; arguments and errors are those of `open_grader`."""
    if not isinstance(spec, RulerGrader):
        return OpenGrader(
            open_grader(
                spec,
                client=client,
                secrets=secrets,
                judge=judge,
                job_id=job_id,
                response_format=response_format,
                share=share,
            )
        )
    ruler = open_group_grader(
        spec, client=client, secrets=secrets, judge=judge, job_id=job_id, response_format=response_format
    )
    return OpenGrader(group=ruler)


def open_grader(
    spec: GraderSpec,
    *,
    client: EndpointClient,
    secrets: RunSecrets,
    judge: JudgeServer | None,
    job_id: str,
    response_format: ResponseFormat | None = None,
    share: SlotShare | None = None,
) -> Grader:
    """The grader of one job. Close it with `grader.close_grader` when the job is done.

    `share`: of the python grades that this process runs at once; by default all, fairly with those of other jobs.
    Raises ValueError for what cannot judge one rollout alone or needs a judge where none is configured.
    """
    grader = _open(spec, client=client, secrets=secrets, judge=judge, job_id=job_id, share=share)
    return grader if response_format is None else GradesWhatFits(grader, spec, response_format)


def _open(
    spec: GraderSpec,
    *,
    client: EndpointClient,
    secrets: RunSecrets,
    judge: JudgeServer | None,
    job_id: str,
    share: SlotShare | None,
) -> Grader:
    match spec:
        case MultiGrader():
            parts = {
                name: _open_leaf(
                    part,
                    client=client,
                    headers=secrets.part_headers.get(name),
                    secrets=secrets,
                    judge=judge,
                    job_id=job_id,
                    part=name,
                    share=share,
                )
                for name, part in spec.graders.items()
            }
            return Multi(spec, parts)
        case RulerGrader():
            raise ValueError("a ruler grader ranks groups; open it with `open_group_grader`")
        case _:
            return _open_leaf(
                spec,
                client=client,
                headers=secrets.grader_headers,
                secrets=secrets,
                judge=judge,
                job_id=job_id,
                share=share,
            )


def open_group_grader(
    spec: RulerGrader,
    *,
    client: EndpointClient,
    secrets: RunSecrets,
    judge: JudgeServer | None,
    job_id: str,
    response_format: ResponseFormat | None = None,
) -> GroupGrader:
    """The grader that ranks whole groups. Raises ValueError where no judge is configured."""
    ruler = Ruler(client, spec, _needed(judge, spec.type), secrets.judge_api_key, job_id)
    return ruler if response_format is None else RanksWhatFits(ruler, spec, response_format)


def _open_leaf(
    spec: EndpointGrader
    | StringCheckGrader
    | TextSimilarityGrader
    | ScoreModelGrader
    | LabelModelGrader
    | PythonGrader,
    *,
    client: EndpointClient,
    headers: dict[str, str] | None,
    secrets: RunSecrets,
    judge: JudgeServer | None,
    job_id: str,
    part: str | None = None,
    share: SlotShare | None = None,
) -> Grader:
    match spec:
        case EndpointGrader():
            return HttpGraderGateway(client, spec, headers=headers, job_id=job_id, part=part)
        case StringCheckGrader():
            return StringCheck(spec)
        case TextSimilarityGrader():
            return TextSimilarity(spec)
        case PythonGrader():
            return PythonCode(spec, share=share or SlotShare(owner=job_id))
        case ScoreModelGrader():
            return ScoreModelJudge(client, spec, _needed(judge, spec.type), secrets.judge_api_key, job_id)
        case LabelModelGrader():
            return LabelModelJudge(client, spec, _needed(judge, spec.type), secrets.judge_api_key, job_id)


def _needed(judge: JudgeServer | None, kind: str) -> JudgeServer:
    if judge is None:
        raise ValueError(f"a {kind} grader needs a judge server, and none is configured")
    return judge
