"""Steps and rollouts on the wire. Ours: the contract has no such objects."""

from typing import Literal

from pydantic import BaseModel

from rft.core.events import RolloutDone, StepDone
from rft.core.failure import Failure, Stage
from rft.core.grade import Grade
from rft.core.rollout import Split
from rft.platform.api.pagination import Listed
from rft.platform.rollouts.begun_repository import BegunRow
from rft.platform.rollouts.repository import StepRow
from rft.platform.store.said import PREVIEW_CHARS, answer_of, prompt_of


class StepObject(Listed):
    """One step of a job; its id is its number."""

    object: Literal["fine_tuning.job.step"] = "fine_tuning.job.step"
    step: int
    created_at: int
    record: StepDone
    """Everything the trainer reported."""


class RolloutSummary(Listed):
    """One rollout without its messages; its id is its trace id."""

    object: Literal["fine_tuning.job.rollout"] = "fine_tuning.job.rollout"
    split: Split
    step: int
    epoch: int
    row_index: int
    group_index: int
    """Position in the group."""
    attempt: int
    """Above 0 for a replacement of a failed rollout."""
    policy_version: int
    reward: float | None
    """None: unscorable, see `failure_code`."""
    failure_code: str | None
    failure_stage: Stage | None
    stop_reason: str | None
    tool_calls: int
    completion_tokens: int
    duration_s: float
    created_at: int
    prompt: str | None
    """How the row's last question begins; null where it asks none."""
    answer: str | None
    """How the policy's last words begin; null where it was cut off before."""


class RolloutNeighbours(BaseModel):
    """The rollouts before and behind one, in a list of them."""

    object: Literal["fine_tuning.job.rollout.neighbours"] = "fine_tuning.job.rollout.neighbours"
    previous: RolloutSummary | None
    next: RolloutSummary | None


class RolloutDetail(RolloutSummary):
    """One conversation with everything the trainer reported, its messages among it.

    Those that are abandoned, or not over, are in no list and no figure.
    """

    status: Literal["in_progress", "ended", "abandoned"]
    """`abandoned`: it was cut off, or its step was done again. Nothing of it was used."""
    superseded_by: str | None
    """Id of the rollout that took the place of an abandoned one, once it is known."""
    record: RolloutDone | None
    """None where no end was reported; the figures are zeros and nulls then."""


def to_step_object(row: StepRow) -> StepObject:
    """The row on the wire."""
    return StepObject(id=str(row.step), step=row.step, created_at=int(row.created_at.timestamp()), record=row.record)


def to_begun_detail(row: BegunRow) -> RolloutDetail:
    """A conversation that is under way, or that counts no more, on the wire."""
    done = row.record
    outcome = None if done is None else done.outcome
    prompt, answer = (None, None) if done is None else _previews(done)
    failure = outcome if isinstance(outcome, Failure) else None
    return RolloutDetail(
        id=row.trace_id,
        split=row.split,
        step=row.step,
        epoch=row.epoch,
        row_index=row.row_index,
        group_index=row.group_index,
        attempt=row.attempt,
        policy_version=row.policy_version,
        reward=outcome.reward if isinstance(outcome, Grade) else None,
        failure_code=failure and failure.code,
        failure_stage=failure and failure.stage,
        stop_reason=done and done.stop_reason,
        tool_calls=0 if done is None else sum(done.tool_calls.values()),
        completion_tokens=0 if done is None else done.completion_tokens,
        duration_s=0.0 if done is None else done.duration_s,
        created_at=int(row.created_at.timestamp()),
        status="abandoned" if row.is_abandoned else "in_progress",
        superseded_by=row.superseded_by,
        record=done,
        prompt=prompt,
        answer=answer,
    )


def _previews(record: RolloutDone) -> tuple[str | None, str | None]:
    prompt, answer = prompt_of(record.messages), answer_of(record.messages)
    return prompt and prompt[:PREVIEW_CHARS], answer and answer[:PREVIEW_CHARS]
