"""`score_model`: a judge model gives a number, clamped to the grader's range."""

from rft.core.graders import JudgeServer, ScoreModelGrader
from rft.egress.endpoint_client import EndpointClient
from rft.grader_gateway.builtin.model_judge import Form, ModelJudge, steps_and
from rft.grader_gateway.judge import Judge
from rft.grader_gateway.judge_answer import Unreadable, as_number, field_of_answer, show
from rft.grader_gateway.second_verdicts import PossibleVerdicts

_INSTRUCTION = """\
You are a grader. Reason in short steps, then give a number from {low:g} to {high:g}.
Answer with one JSON object and nothing else:
{{"steps": [{{"description": "...", "conclusion": "..."}}], "result": <number>}}"""


class ScoreModelJudge(ModelJudge):
    """The score model of one job."""

    def __init__(
        self,
        client: EndpointClient,
        spec: ScoreModelGrader,
        judge: JudgeServer,
        api_key: str | None = None,
        job_id: str = "",
    ) -> None:
        low, high = spec.range
        super().__init__(
            Judge(client, judge, api_key=api_key, name=spec.name, job_id=job_id),
            name=spec.name,
            model=spec.model,
            messages=spec.input,
            sampling=spec.sampling_params,
            form=Form(
                name="score",
                instruction=_INSTRUCTION.format(low=low, high=high),
                schema=steps_and({"type": "number"}),
                read=lambda text: read_score(text, low, high),
                worst=spec.grade_of_invalid,
            ),
        )


def read_score(text: str, low: float, high: float) -> float | Unreadable:
    """The result within the range, or why the answer holds none. An unreadable answer is never a score."""
    result = field_of_answer(text, "result", PossibleVerdicts(highest=high))
    if isinstance(result, Unreadable):
        return result
    number = as_number(result)
    if number is None:
        return Unreadable(f"gave no number but {show(text.strip() if result is None else result)}")
    return min(high, max(low, number))
