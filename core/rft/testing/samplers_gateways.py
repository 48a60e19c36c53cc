"""Tools and graders that are functions: rollouts without HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolResult, ToolSchema


@dataclass(slots=True)
class FunctionTools:
    """Implements `ToolGateway`: the function gets the call and the trace id, and gives an output or a failure."""

    answer: Callable[[ToolCall, str], Awaitable[str | Failure | ToolResult]]
    calls: list[tuple[ToolCall, str]] = field(default_factory=list[tuple[ToolCall, str]])
    """Every call made, with its trace id, in the order they began."""

    async def call(self, call: ToolCall, *, tools: Sequence[ToolSchema], item: JsonObject, trace_id: str) -> ToolResult:
        """The function's answer as a result of one attempt."""
        del tools, item
        self.calls.append((call, trace_id))
        answer = await self.answer(call, trace_id)
        if isinstance(answer, ToolResult):
            return answer
        if isinstance(answer, Failure):
            return ToolResult(call_id=call.call_id, name=call.name, output=None, failure=answer, attempts=1)
        return ToolResult(call_id=call.call_id, name=call.name, output=answer, attempts=1)


@dataclass(slots=True)
class FunctionGrader:
    """Implements `Grader`: the function gets the finished trace and the trace id, and gives a reward."""

    score: Callable[[FinishedTrace, str], Awaitable[float | Failure]]
    name: str = "grader"
    graded: list[tuple[FinishedTrace, str]] = field(default_factory=list[tuple[FinishedTrace, str]])
    """Everything that was to be graded, with its trace id."""

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The function's reward as a grade."""
        del item
        self.graded.append((trace, trace_id))
        reward = await self.score(trace, trace_id)
        if isinstance(reward, Failure):
            return reward
        return Grade(reward=reward, scores={self.name: reward}, grader=self.name)
