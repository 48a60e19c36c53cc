"""What graders with a judge have in common: templates rendered into messages, one question, one grade."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import SAMPLE_PARSE_ERROR, Grade
from rft.core.graders import JudgeMessage, SamplingParams
from rft.grader_gateway.builtin.guarded import NoScore, broke, not_judged, unrendered
from rft.grader_gateway.contract import to_item, to_sample
from rft.grader_gateway.judge import TOO_LONG, Judge, Question, with_instruction
from rft.grader_gateway.judge_answer import Unreadable
from rft.grader_gateway.templates import ANSWER, Template, Unrenderable, parse, render_all, without

_CALL_ID = "grade"
_CONVERSATION = ANSWER | {"trace"}
_LEFT_OUT = "..."
"""In place of it: some servers refuse empty messages."""


@dataclass(frozen=True, slots=True)
class Form:
    """The answer a judge is asked for."""

    name: str
    instruction: str
    schema: JsonObject
    read: Callable[[str], float | Unreadable]
    worst: float
    """The score of an answer of the policy that lacks what a template names."""


class ModelJudge:
    """Grades one rollout with one question to the judge. Raises TemplateError for a template that is none."""

    def __init__(
        self,
        judge: Judge,
        *,
        name: str,
        model: str,
        messages: Sequence[JudgeMessage],
        sampling: SamplingParams,
        form: Form,
    ) -> None:
        self._judge, self._name, self._model, self._sampling, self._form = judge, name, model, sampling, form
        self._messages = [(message, parse(message.content)) for message in messages]

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The judge's verdict. Never raises but for cancellation."""
        try:
            return await self._grade(trace, item, trace_id)
        except Exception as error:
            return broke(self._name, trace_id, error)

    async def _grade(self, trace: FinishedTrace, item: JsonObject, trace_id: str) -> Grade | Failure:
        rendered = _render(self._messages, to_sample(trace), to_item(item))
        if isinstance(rendered, Unrenderable):
            problem = unrendered(self._name, rendered)
            if isinstance(problem, Failure):
                return problem
            return not_judged(self._name, self._form.worst, problem).model_copy(update={"attempts": 0})
        verdict = await self._judge.ask(self._question(rendered), trace_id=trace_id, call_id=self._call_id)
        if isinstance(verdict, Failure):
            return await self._too_long(verdict, trace, item, trace_id) if verdict.detail == TOO_LONG else verdict
        return Grade(
            reward=verdict.value,
            scores={self._name: verdict.value},
            grader=self._name,
            latency_s=verdict.latency_s,
            attempts=verdict.attempts,
            usage={self._model: verdict.usage},
            request=verdict.request,
            reply=verdict.reply,
        )

    async def _too_long(
        self, refused: Failure, trace: FinishedTrace, item: JsonObject, trace_id: str
    ) -> Grade | Failure:
        """Of what is longer than the judge's context. Where all fits but the conversation, its length costs the score:
        to leave it out of the training would reward that. Where that does not fit either, the row is too long."""
        others = [
            (message, without(_CONVERSATION, template, instead=_LEFT_OUT)) for message, template in self._messages
        ]
        rendered = _render(others, to_sample(trace), to_item(item))
        assert not isinstance(rendered, Unrenderable), "all of it was rendered"
        asked = await self._judge.ask(self._question(rendered), trace_id=trace_id, call_id=f"{self._call_id}.rest")
        if isinstance(asked, Failure) and asked.detail == TOO_LONG:
            return refused.model_copy(update={"code": FailureCode.OVERSIZE_REQUEST, "detail": None})
        if isinstance(asked, Failure) and asked.code is not FailureCode.INVALID_SCORE:
            return asked
        why = NoScore(SAMPLE_PARSE_ERROR, f"was sent more than its model's context holds: {refused.message}")
        usage = asked.usage if isinstance(asked, Failure) else {self._model: asked.usage}
        grade = not_judged(self._name, self._form.worst, why)
        return grade.model_copy(update={"usage": usage, "attempts": refused.attempts})

    @property
    def _call_id(self) -> str:
        return f"{_CALL_ID}.{self._name}"

    def _question(self, rendered: Sequence[JudgeMessage]) -> Question[float]:
        return Question(
            model=self._model,
            messages=with_instruction(rendered, self._form.instruction),
            answer_name=self._form.name,
            answer_schema=self._form.schema,
            read=self._form.read,
            sampling=self._sampling,
        )


def _render(
    messages: Sequence[tuple[JudgeMessage, Template]], sample: JsonObject, item: JsonObject
) -> list[JudgeMessage] | Unrenderable:
    """The messages with every value in its place; a variable that the row lacks counts before one of the answer."""
    texts = render_all([template for _, template in messages], sample=sample, item=item)
    if isinstance(texts, Unrenderable):
        return texts
    return [message.model_copy(update={"content": text}) for (message, _), text in zip(messages, texts, strict=True)]


def steps_and(result: JsonObject) -> JsonObject:
    """JSON Schema of the contract's answer: steps of reasoning, then a result."""
    text: JsonObject = {"type": "string"}
    step: JsonObject = {
        "type": "object",
        "properties": {"description": text, "conclusion": text},
        "required": ["description", "conclusion"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"steps": {"type": "array", "items": step}, "result": result},
        "required": ["steps", "result"],
        "additionalProperties": False,
    }
