"""What rollouts of tokens and of messages have in common: stages, tool calls, grade, and whom the deadline blames."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rft.core.dataset import DatasetRow
from rft.core.errors import RftError
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import Message, Role, ToolCall, ToolResult
from rft.core.rollout import StopReason
from rft.grader_gateway.grader import HasStandingGrades
from rft.rollouts.setup import SharedSetup
from rft.rollouts.tool_calls import BrokenOff, ToolCalls

log = logging.getLogger(__name__)

Setup = TypeVar("Setup", bound=SharedSetup)


@dataclass(slots=True, kw_only=True)
class StagedRollout(ABC, Generic[Setup]):
    """One rollout under way: who holds it, what it has used up, and how it ends."""

    row: DatasetRow
    trace_id: str
    """The public id, drawn for this conversation alone."""
    setup: Setup
    messages: list[Message] = field(default_factory=list[Message])
    calls: ToolCalls = field(init=False)
    stop_reason: StopReason | None = None
    spent_s: dict[Stage, float] = field(default_factory=lambda: dict.fromkeys(Stage, 0.0))
    holder: Stage = Stage.PLATFORM
    """The stage that the rollout is in now: it is blamed when the deadline passes."""
    held_since: float = 0.0
    deadline: asyncio.Timeout | None = None
    """The one it runs under now."""
    is_host_notified: bool = False
    """The host was told, or may have been, that the rollout begins."""

    def end_after_calls(self) -> StopReason | None:
        """Whether a turn that called tools is the last, and why."""
        if self.row.tools and not self.setup.has_tool_servers:
            return StopReason.TOOL_CALLS
        return StopReason.MAX_TOOL_CALLS if self.calls.is_budget_overrun else None

    async def notify_started(self) -> None:
        """Let the customer's servers make what the rollout needs. Raises BrokenOff."""
        host = self.setup.host
        if host is None:
            return
        self.is_host_notified = True
        with self.held_by(Stage.TOOL):
            failure = await host.started(item=self.row.item, trace_id=self.trace_id)
        if failure is not None:
            raise BrokenOff(failure)

    def notify_ended(self, outcome: Grade | Failure | None) -> None:
        """Let the customer's servers free it; None for a cancelled rollout."""
        if self.setup.host is not None and self.is_host_notified:
            self.setup.host.ended(trace_id=self.trace_id, outcome=outcome)

    async def run_calls(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """All calls of a turn at once; their results in the order of the calls. Raises BrokenOff."""
        with self.held_by(Stage.TOOL):
            results = await self.calls.run(calls)
        self.messages.extend(
            Message(role=Role.TOOL, content=result.output or "", tool_call_id=result.call_id, name=result.name)
            for result in results
        )
        return results

    async def grade(self) -> Grade | Failure:
        """The verdict on the whole conversation; an empty answer is judged like any other."""
        if self.setup.grader is None:
            raise RftError("no grader judges single rollouts here")
        with self.held_by(Stage.GRADER):
            return await self.setup.grader.grade(self._finished(), item=self.row.item, trace_id=self.trace_id)

    def _finished(self) -> FinishedTrace:
        return FinishedTrace.of(self.row, self.messages, self.stop_reason, model=self.setup.model_name)

    async def outcome_of(self, work: Callable[[], Awaitable[Grade | Failure | None]]) -> Grade | Failure | None:
        """Every way the work can end within the deadline, each blamed once; None when the work itself says so."""
        deadline = None
        try:
            async with self.setup.deadlines.within(self.setup.budgets.deadline_s) as deadline:
                self.deadline = deadline
                return await work()
        except BrokenOff as broken:
            return broken.failure
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline is not None and deadline.expired():
                return self.out_of_time()
            log.exception("rollout %s broke on an exception of ours", self.trace_id)
            return Failure(
                stage=Stage.PLATFORM,
                code=FailureCode.INTERNAL_ERROR,
                message=f"The platform failed, not your endpoint: {type(error).__name__}: {str(error)[:300]}",
            )

    @contextmanager
    def held_by(self, stage: Stage) -> Generator[None]:
        """Blame and time go to `stage` inside. The blame stays when an exception leaves."""
        self.holder, self.held_since = stage, self.setup.clock()
        try:
            yield
        finally:
            self.spent_s[stage] += self.setup.clock() - self.held_since
        self.holder = Stage.PLATFORM

    def out_of_time(self) -> Grade | Failure:
        """The failure of a rollout whose deadline passed, blamed on the stage that it was in.

        The grade of an answer that does not fit its `response_format` stands, whoever was told of it and hung.
        """
        deadline = f"The rollout's deadline of {self.setup.budgets.deadline_s:g} s ran out"
        match self.holder:
            case Stage.TOOL:
                waiting = self.calls.first_unanswered
                if waiting is None:
                    text = f"{deadline} while its beginning was told to its tool servers."
                    return self.failure(FailureCode.DEADLINE_EXCEEDED, text)
                text = f"{deadline} while tool {waiting!r} held it."
                return self.failure(FailureCode.DEADLINE_EXCEEDED, text, endpoint=waiting)
            case Stage.GRADER:
                name = self.setup.grader_name
                text = f"{deadline} while grader {name!r} held it."
                return self._standing_grade(text) or self.failure(FailureCode.DEADLINE_EXCEEDED, text, endpoint=name)
            case Stage.SAMPLER | Stage.PLATFORM:
                return self.sampler_out_of_time(deadline)

    def _standing_grade(self, why_late: str) -> Grade | None:
        grader = self.setup.grader
        grade = grader.standing_grade(self._finished()) if isinstance(grader, HasStandingGrades) else None
        if grade is None:
            return None
        held_s = max(0.0, self.setup.clock() - self.held_since)
        return grade.model_copy(update={"error_details": f"{grade.error_details}\n{why_late}", "latency_s": held_s})

    @abstractmethod
    def sampler_out_of_time(self, deadline: str) -> Failure:
        """The same for what samples; `deadline` says which one ran out, as the beginning of a sentence."""

    def failure(self, code: FailureCode, message: str, attempts: int = 1, endpoint: str | None = None) -> Failure:
        """Of the stage that the rollout is in."""
        return Failure(
            stage=self.holder,
            code=code,
            message=message,
            endpoint=endpoint,
            attempts=attempts,
            elapsed_s=max(0.0, self.setup.clock() - self.held_since),
        )
