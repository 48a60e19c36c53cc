"""One sample of one item: brought along or made, then graded, and what is kept of it."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.ids import digest, trace_id
from rft.core.messages import Message
from rft.core.schema_fit import SchemaFit
from rft.grader_gateway.contract import to_sample
from rft.platform.evals.given_sample import BadSample, given_trace, has_answer
from rft.platform.evals.item_fit import item_misfit
from rft.platform.evals.output_item_repository import ModelUsage, NewOutputItem
from rft.platform.evals.run_objects import shown_sample
from rft.platform.evals.verdicts import NoVerdict, judge_usage, verdicts
from rft.platform.worker.eval_criteria import OpenCriteria
from rft.platform.worker.eval_items import EvalItem

Outcomes = Sequence[Grade | Failure | NoVerdict]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be graded, or why there is nothing."""

    shown: JsonObject
    """The sample as the contract shows it."""
    trace: FinishedTrace | None = None
    failure: Failure | NoVerdict | None = None
    """Exactly when there is no trace."""
    trace_id: str = ""
    has_sample: bool = True
    model: str = ""
    usage: ModelUsage = field(default_factory=ModelUsage)
    tool_calls: int = 0
    tools_not_found: tuple[str, ...] = ()
    """Those that answered a call as if they were not there."""
    latency_s: float | None = None


AnswerItem = Callable[[EvalItem, int], Awaitable[Answer]]
"""The sample with this number of an item."""


@dataclass(frozen=True, slots=True)
class ItemGrading:
    """Turns items into output items."""

    run_id: str
    fit: SchemaFit
    criteria: OpenCriteria
    answer: AnswerItem

    async def output_item(self, item: EvalItem, sample_index: int) -> NewOutputItem:
        """What becomes of one sample of one item."""
        answer = self._misfit(item) or await self.answer(item, sample_index)
        outcomes: Outcomes
        if answer.trace is None:
            reason = answer.failure
            assert reason is not None, "there is a trace, or a reason why not"
            outcomes = [reason] * len(self.criteria.criteria)
        else:
            outcomes = await self.criteria.grade(
                answer.trace, item=item.item, trace_id=answer.trace_id, has_sample=answer.has_sample
            )
        told = verdicts(self.criteria.criteria, outcomes)
        own = {answer.model: answer.usage} if answer.usage.calls else {}
        return NewOutputItem(
            id=f"outputitem_{digest(self.run_id, item.index, sample_index).hex()[:32]}",
            row_index=item.index,
            sample_index=sample_index,
            status=told.status,
            item=item.item,
            sample=answer.shown,
            results=told.results,
            scores=told.scores,
            passes=told.passes,
            failure_code=told.failure_code,
            usage=_together(own, judge_usage(outcomes)),
            prompt_tokens=answer.usage.prompt_tokens,
            completion_tokens=answer.usage.completion_tokens,
            tool_calls=answer.tool_calls,
            tools_not_found=answer.tools_not_found,
            latency_s=answer.latency_s,
        )

    def _misfit(self, item: EvalItem) -> Answer | None:
        misfit = item_misfit(self.fit, item.item)
        if misfit is None:
            return None
        where = f" at {misfit.place}" if misfit.place else ""
        return unanswered(
            NoVerdict("item_schema_mismatch", f"The item does not fit the eval's schema{where}: {misfit.message}")
        )


def unanswered(reason: Failure | NoVerdict) -> Answer:
    """Nothing to be graded."""
    error: JsonObject = {"code": str(reason.code), "message": reason.message}
    return Answer(shown_sample(model="", prompt=[], output=[], finish_reason=None, error=error), failure=reason)


async def given_answer(item: EvalItem, sample_index: int) -> Answer:
    """The sample that the item brings."""
    del sample_index
    try:
        trace = given_trace(item.sample)
    except BadSample as error:
        return unanswered(NoVerdict("invalid_sample", f"The item's sample cannot be graded: {error}."))
    has_sample, drawn = has_answer(item.sample), trace_id(uuid.uuid4())
    produced = trace.messages[trace.prompt_messages :]
    shown = shown_sample(
        model=trace.model,
        prompt=[shown_message(message) for message in trace.messages[: trace.prompt_messages]],
        output=[shown_message(message) for message in produced],
        finish_reason=str(to_sample(trace)["finish_reason"]) if has_sample else None,
        trace_id=drawn,
    )
    return Answer(shown, trace, trace_id=drawn, has_sample=has_sample, model=trace.model)


def shown_message(message: Message) -> JsonObject:
    """A message as the contract shows it, with what was thought and called."""
    shown: JsonObject = {"role": str(message.role), "content": message.content}
    if message.reasoning_content:
        shown["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        calls: list[JsonObject] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        shown["tool_calls"] = cast("list[JsonValue]", calls)
    if message.tool_call_id is not None:
        shown["tool_call_id"] = message.tool_call_id
    return shown


def _together(one: dict[str, ModelUsage], other: dict[str, ModelUsage]) -> dict[str, ModelUsage]:
    """Both, by model; a model may judge itself."""
    total = dict(one)
    for model, usage in other.items():
        known = total.get(model, ModelUsage())
        total[model] = ModelUsage(
            prompt_tokens=known.prompt_tokens + usage.prompt_tokens,
            completion_tokens=known.completion_tokens + usage.completion_tokens,
            cached_tokens=known.cached_tokens + usage.cached_tokens,
            calls=known.calls + usage.calls,
        )
    return total
