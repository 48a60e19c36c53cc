"""One rollout: sample -> tool calls -> ... -> answer -> grade. Never raises but for cancellation; a failure is data."""

import logging
from dataclasses import dataclass

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.conversation import Conversation, finished_trace
from rft.rollouts.gateways import FinishedTrace
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.tool_calls import BrokenOff

log = logging.getLogger(__name__)


async def run_rollout(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> Rollout:
    """One attempt at one row, graded or failed. The same key, policy and replies give the same trace."""
    begun = _begin(row, key, setup)
    outcome: Grade | Failure | None = None
    try:
        outcome = await _unless_broken(begun.conversation, is_grading=True)
        assert outcome is not None
        return begun.ended(outcome)
    finally:
        begun.conversation.farewell(outcome)


async def run_conversation(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> "Ungraded | Rollout":
    """One attempt at one row without the grade, for graders that judge whole groups; a failed one has ended."""
    begun = _begin(row, key, setup)
    outcome: Grade | Failure | None = None
    is_finished = False
    try:
        outcome = await _unless_broken(begun.conversation, is_grading=False)
        is_finished = outcome is None
    finally:
        if not is_finished:
            begun.conversation.farewell(outcome)
    if outcome is not None:
        return begun.ended(outcome)
    return Ungraded(begun, conversed_s=setup.clock() - begun.started_s)


def _begin(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> "_Begun":
    return _Begun(Conversation(row, key, setup, policy_version=setup.sampler.policy_version), setup.clock())


@dataclass(frozen=True, slots=True)
class _Begun:
    conversation: Conversation
    started_s: float

    def ended(self, outcome: Grade | Failure, *, conversed_s: float | None = None, grading_s: float = 0.0) -> Rollout:
        """The finished attempt; `conversed_s` where its time did not end just now."""
        talk = self.conversation
        if conversed_s is None:
            conversed_s = talk.setup.clock() - self.started_s
        return Rollout(
            key=talk.key,
            policy_version=talk.policy_version,
            trace=talk.trace,
            stop_reason=talk.stop_reason,
            outcome=outcome,
            messages=tuple(talk.messages),
            duration_s=conversed_s + grading_s,
            sampling_s=talk.spent_s[Stage.SAMPLER],
            tools_s=talk.spent_s[Stage.TOOL],
            grading_s=talk.spent_s[Stage.GRADER] + grading_s,
        )


@dataclass(frozen=True, slots=True)
class Ungraded:
    """A rollout whose conversation ended; it waits for the verdict on its group. Needs one `grade` or `abandon`."""

    _begun: _Begun
    conversed_s: float

    @property
    def trace_id(self) -> str:
        """The public id."""
        return self._begun.conversation.key.trace_id

    @property
    def trace(self) -> FinishedTrace:
        """What is to be judged."""
        talk = self._begun.conversation
        return finished_trace(talk.row, talk.messages, talk.stop_reason, model=talk.setup.model_name)

    def grade(self, outcome: Grade | Failure, *, grading_s: float) -> Rollout:
        """The rollout with its outcome. Waiting for the slower ones of the group is not part of its time."""
        self._begun.conversation.farewell(outcome)
        return self._begun.ended(outcome, conversed_s=self.conversed_s, grading_s=grading_s)

    def abandon(self) -> None:
        """The step was given up."""
        self._begun.conversation.farewell(None)


async def _unless_broken(talk: Conversation, *, is_grading: bool) -> Grade | Failure | None:
    """Every way a rollout can end, each blamed once; None when it was to be graded by others."""
    deadline = None
    try:
        async with talk.setup.deadlines.within(talk.setup.budgets.deadline_s) as deadline:
            await talk.tell_host()
            talk.stop_reason = await talk.converse()
            return await talk.grade() if is_grading else None
    except BrokenOff as broken:
        return broken.failure
    except Exception as error:
        if isinstance(error, TimeoutError) and deadline is not None and deadline.expired():
            return talk.out_of_time()
        log.exception("rollout %s broke on an exception of ours", talk.key.trace_id)
        return Failure(
            stage=Stage.PLATFORM,
            code=FailureCode.INTERNAL_ERROR,
            message=f"The platform failed, not your endpoint: {type(error).__name__}: {str(error)[:300]}",
        )
