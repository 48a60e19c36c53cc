"""The tool calls of one rollout: the calls of a turn at once, unless its row wants none in parallel, in one budget."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure
from rft.core.messages import CallMistake, ToolCall, ToolResult
from rft.rollouts.gateways import ToolGateway
from rft.rollouts.gather_or_cancel import gather_or_cancel


class BrokenOff(Exception):
    """Ends a conversation that cannot go on; carries the failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(slots=True)
class ToolCalls:
    """Runs calls and counts them: each counts, whatever comes of it, so that no mistake can be made for ever."""

    gateway: ToolGateway
    row: DatasetRow
    trace_id: str
    max_calls: int
    count_tokens: Callable[[str], int]
    unreadable_output: str
    """What the model reads of a call that cannot be read."""
    made: int = 0
    is_budget_overrun: bool = False
    """A call was refused: the model gets one last turn."""
    _unanswered: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def unanswered(self) -> Collection[str]:
        """Names of the tools of the current turn that have not answered yet, once for each call."""
        return self._unanswered.values()

    @property
    def first_unanswered(self) -> str | None:
        """Name of the first tool of the current turn that has not answered yet."""
        return next(iter(self._unanswered.values()), None)

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Results in the order of the calls. Raises BrokenOff on the first failure; the other calls are cancelled."""
        allowed = max(0, self.max_calls - self.made)
        self.made += len(calls)
        self.is_budget_overrun = len(calls) > allowed
        ran = await self._run_all(calls[:allowed])
        return (*ran, *(self._counted(_refused(call, self.max_calls)) for call in calls[allowed:]))

    async def _run_all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        self._unanswered = {call.call_id: call.name for call in calls if call.name}
        if self.row.item.get("parallel_tool_calls") is False:
            return [await self._run_one(call) for call in calls]
        try:
            return await gather_or_cancel(self._run_one(call) for call in calls)
        except ExceptionGroup as errors:
            raise _worst(errors) from errors

    async def _run_one(self, call: ToolCall) -> ToolResult:
        if not call.name:
            return self._counted(_mistake(call, CallMistake.UNREADABLE_CALL, self.unreadable_output))
        result = await self.gateway.call(call, tools=self.row.tools, item=self.row.item, trace_id=self.trace_id)
        del self._unanswered[call.call_id]
        if result.failure is not None:
            raise BrokenOff(result.failure)
        return self._counted(result)

    def _counted(self, result: ToolResult) -> ToolResult:
        if result.output is None:
            raise ValueError(f"tool {result.name!r} gave neither an output nor a failure")
        return result.model_copy(update={"output_tokens": self.count_tokens(result.output)})


def _worst(errors: ExceptionGroup[Exception]) -> Exception:
    """A bug of ours outranks a failure: it must never hide behind one."""
    return next((error for error in errors.exceptions if not isinstance(error, BrokenOff)), errors.exceptions[0])


def _refused(call: ToolCall, max_calls: int) -> ToolResult:
    return _mistake(
        call,
        CallMistake.BUDGET_USED_UP,
        f"Error: tool call budget used up ({max_calls} calls). This call was not made. Answer now without tools.",
    )


def _mistake(call: ToolCall, code: CallMistake, output: str) -> ToolResult:
    return ToolResult(call_id=call.call_id, name=call.name, output=output, is_model_error=True, error_code=code)
