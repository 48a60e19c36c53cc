"""What graders with a judge have in common: templates rendered into messages, one question, one grade."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import JudgeMessage, SamplingParams
from rft.grader_gateway.builtin.guarded import broke, not_judged, unrendered
from rft.grader_gateway.contract import to_item, to_sample
from rft.grader_gateway.judge import Judge, Question, with_instruction
from rft.grader_gateway.judge_answer import Unreadable
from rft.grader_gateway.templates import Template, Unrenderable, parse, render_all

_CALL_ID = "grade"


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
        question = Question(
            model=self._model,
            messages=with_instruction(rendered, self._form.instruction),
            answer_name=self._form.name,
            answer_schema=self._form.schema,
            read=self._form.read,
            sampling=self._sampling,
        )
        verdict = await self._judge.ask(question, trace_id=trace_id, call_id=f"{_CALL_ID}.{self._name}")
        if isinstance(verdict, Failure):
            return verdict
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
