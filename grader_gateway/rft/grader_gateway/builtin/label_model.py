"""`label_model`: a judge model chooses a label; a passing one is 1, any other 0."""

from collections.abc import Sequence

from rft.core.graders import JudgeServer, LabelModelGrader
from rft.egress.endpoint_client import EndpointClient
from rft.grader_gateway.builtin.model_judge import Form, ModelJudge, steps_and
from rft.grader_gateway.judge import Judge
from rft.grader_gateway.judge_answer import Unreadable, as_number, field_of_answer, show
from rft.grader_gateway.second_verdicts import PossibleVerdicts

_INSTRUCTION = """\
You are a grader. Reason in short steps, then choose exactly one of these labels:
{labels}
Answer with one JSON object and nothing else:
{{"steps": [{{"description": "...", "conclusion": "..."}}], "result": "one of the labels"}}"""


class LabelModelJudge(ModelJudge):
    """The label model of one job."""

    def __init__(
        self,
        client: EndpointClient,
        spec: LabelModelGrader,
        judge: JudgeServer,
        api_key: str | None = None,
        job_id: str = "",
    ) -> None:
        super().__init__(
            Judge(client, judge, api_key=api_key, name=spec.name, job_id=job_id),
            name=spec.name,
            model=spec.model,
            messages=spec.input,
            sampling=spec.sampling_params,
            form=Form(
                name="label",
                instruction=_INSTRUCTION.format(labels="\n".join(f"- {label}" for label in spec.labels)),
                schema=steps_and({"type": "string", "enum": list(spec.labels)}),
                read=lambda text: _score(text, spec.labels, spec.passing_labels),
                worst=spec.grade_of_invalid,
            ),
        )


def _score(text: str, labels: Sequence[str], passing: Sequence[str]) -> float | Unreadable:
    label = read_label(text, labels)
    return label if isinstance(label, Unreadable) else float(label in passing)


def read_label(text: str, labels: Sequence[str]) -> str | Unreadable:
    """The chosen label; case and surrounding space do not matter where that leaves one label only."""
    result = field_of_answer(text, "result", PossibleVerdicts(labels, _highest(labels)))
    if isinstance(result, Unreadable):
        return result
    if not isinstance(result, str):
        return Unreadable(f"gave no label but {show(text.strip() if result is None else result)}")
    if result in labels:
        return result
    alike = [label for label in labels if label.strip().casefold() == result.strip().casefold()]
    return alike[0] if len(alike) == 1 else Unreadable(f"chose {show(result)}, which is not among the labels")


def _highest(labels: Sequence[str]) -> float | None:
    return max((number for label in labels if (number := as_number(label)) is not None), default=None)
