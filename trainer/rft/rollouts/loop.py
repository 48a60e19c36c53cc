"""One rollout: sample -> tool calls -> ... -> answer -> grade. Never raises but for cancellation; a failure is data."""

from dataclasses import dataclass

from rft.core.dataset import DatasetRow
from rft.core.events import RolloutBegan
from rft.core.failure import Failure, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade, total_usage
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.conversation import Conversation
from rft.rollouts.ended_conversation import EndedConversation
from rft.rollouts.failure_actions import FailureAction, action_for
from rft.rollouts.sampler import keep_policy, release_policy
from rft.rollouts.setup import RolloutSetup


async def run_rollout(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> Rollout:
    """One rollout of one row, graded or failed. The same key, policy and replies give the same tokens."""
    ended = await run_and_grade(row, key, setup)
    return ended.give_up() if isinstance(ended, PendingGrade) else ended


async def run_and_grade(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> "PendingGrade | Rollout":
    """As `run_rollout`, but a conversation that ended and only lacks its grade is kept: it can be graded again."""
    return await run_begun(row, await begin(key, setup), setup, is_grading=True)


async def run_conversation(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> "PendingGrade | Rollout":
    """One rollout of one row without the grade, for graders of whole groups; a failed one has ended."""
    return await run_begun(row, await begin(key, setup), setup, is_grading=False)


async def run_begun(
    row: DatasetRow, began: RolloutBegan, setup: RolloutSetup, *, is_grading: bool
) -> "PendingGrade | Rollout":
    """A rollout that was given its id and its policy version elsewhere, and whose beginning was told there."""
    return await _run(_begun(row, began, setup), is_grading=is_grading)


async def begin(key: RolloutKey, setup: RolloutSetup) -> RolloutBegan:
    """A new rollout with an id of its own, told of before anybody outside hears of it.

    The engine keeps its policy version until it has run.
    """
    began = RolloutBegan(key=key, trace_id=setup.draw_trace_id(), policy_version=setup.sampler.policy_version)
    keep_policy(setup.sampler, began.trace_id, began.policy_version)
    try:
        if setup.on_begun is not None:
            await setup.on_begun(began)
    except BaseException:
        release_policy(setup.sampler, began.trace_id)
        raise
    return began


def _begun(row: DatasetRow, began: RolloutBegan, setup: RolloutSetup) -> "_Begun":
    conversation = Conversation(
        row=row, key=began.key, trace_id=began.trace_id, setup=setup, policy_version=began.policy_version
    )
    return _Begun(conversation, setup.clock())


async def _run(begun: "_Begun", *, is_grading: bool) -> "PendingGrade | Rollout":
    conversation = begun.conversation

    async def work() -> Grade | Failure | None:
        await conversation.notify_started()
        conversation.stop_reason = await conversation.converse()
        return await conversation.grade() if is_grading else None

    outcome: Grade | Failure | None = None
    is_kept = False
    try:
        with conversation.setup.live.conversation(conversation.trace_id, conversation):
            outcome = await conversation.outcome_of(work)
        is_kept = outcome is None or begun.may_be_graded_again(outcome)
    finally:
        conversation.release_policy()  # It may have ended before its first turn.
        if not is_kept:
            conversation.notify_ended(outcome)
    if outcome is None or is_kept:
        conversed_s = conversation.setup.clock() - begun.started_s - conversation.spent_s[Stage.GRADER]
        return PendingGrade(begun, conversed_s, outcome if isinstance(outcome, Failure) else None)
    return begun.ended(outcome)


@dataclass(frozen=True, slots=True)
class _Begun:
    conversation: Conversation
    started_s: float

    def may_be_graded_again(self, outcome: Grade | Failure) -> bool:
        """Whether the conversation ended, and its grader failed in a way that may heal."""
        return (
            isinstance(outcome, Failure)
            and outcome.stage is Stage.GRADER
            and self.conversation.stop_reason is not None
            and action_for(outcome) is FailureAction.WAIT
        )

    def ended(self, outcome: Grade | Failure, *, conversed_s: float | None = None) -> Rollout:
        """The finished rollout; `conversed_s` where its time did not end just now."""
        conversation = self.conversation
        grading_s = conversation.spent_s[Stage.GRADER]
        return Rollout(
            key=conversation.key,
            trace_id=conversation.trace_id,
            policy_version=conversation.policy_version,
            trace=conversation.trace,
            stop_reason=conversation.stop_reason,
            outcome=outcome,
            messages=tuple(conversation.messages),
            duration_s=conversation.setup.clock() - self.started_s if conversed_s is None else conversed_s + grading_s,
            sampling_s=conversation.spent_s[Stage.SAMPLER],
            tools_s=conversation.spent_s[Stage.TOOL],
            grading_s=grading_s,
            cut_tokens=conversation.cut_tokens,
        )


@dataclass(slots=True, eq=False)
class PendingGrade:
    """A rollout whose conversation ended and that has no grade yet. Ends by a verdict, `give_up` or `abandon`."""

    _begun: _Begun
    conversed_s: float
    failure: Failure | None = None
    """Why the last grading gave no grade; None before the first one."""

    @classmethod
    def of(cls, ended: EndedConversation, row: DatasetRow, setup: RolloutSetup) -> "PendingGrade":
        """Of a conversation that was led in another process and is graded in this one."""
        begun = _begun(row, ended.began, setup)
        conversation = begun.conversation
        conversation.trace, conversation.stop_reason = ended.trace, ended.stop_reason
        conversation.messages[:] = ended.messages
        conversation.spent_s.update(ended.spent_s)
        conversation.cut_tokens, conversation.is_host_notified = ended.cut_tokens, setup.host is not None
        return cls(begun, ended.conversed_s, ended.failure)

    @property
    def ended(self) -> EndedConversation:
        """The conversation, for a process that is to grade it."""
        conversation = self._begun.conversation
        assert conversation.stop_reason is not None
        return EndedConversation(
            began=RolloutBegan(conversation.key, conversation.trace_id, conversation.policy_version),
            trace=conversation.trace,
            stop_reason=conversation.stop_reason,
            messages=tuple(conversation.messages),
            spent_s=dict(conversation.spent_s),
            conversed_s=self.conversed_s,
            cut_tokens=conversation.cut_tokens,
            failure=self.failure,
        )

    @property
    def trace_id(self) -> str:
        """The public id."""
        return self._begun.conversation.trace_id

    @property
    def trace(self) -> FinishedTrace:
        """What is to be judged."""
        conversation = self._begun.conversation
        return FinishedTrace.of(
            conversation.row, conversation.messages, conversation.stop_reason, model=conversation.setup.model_name
        )

    async def grade_again(self) -> "PendingGrade | Rollout":
        """The rollout with what its own grader says now; itself when that fails again in a way that may heal."""
        conversation = self._begun.conversation
        outcome = await conversation.outcome_of(conversation.grade)
        assert outcome is not None
        return self._graded(outcome)

    def graded(self, outcome: Grade | Failure, *, grading_s: float) -> "PendingGrade | Rollout":
        """The same with the verdict on its group. Waiting for the slower ones of the group is not part of its time."""
        self._begun.conversation.spent_s[Stage.GRADER] += grading_s
        return self._graded(outcome)

    def give_up(self) -> Rollout:
        """The rollout with the failure of its last grading."""
        assert self.failure is not None
        return self._end(self.failure)

    def abandon(self) -> None:
        """The step was given up."""
        self._begun.conversation.notify_ended(None)

    def _graded(self, outcome: Grade | Failure) -> "PendingGrade | Rollout":
        if self.failure is not None and self.failure.usage:  # What judges used in vain stays told.
            outcome = outcome.model_copy(update={"usage": total_usage((self.failure.usage, outcome.usage))})
        if isinstance(outcome, Failure) and self._begun.may_be_graded_again(outcome):
            self.failure = outcome
            return self
        return self._end(outcome)

    def _end(self, outcome: Grade | Failure) -> Rollout:
        self._begun.conversation.notify_ended(outcome)
        return self._begun.ended(outcome, conversed_s=self.conversed_s)
