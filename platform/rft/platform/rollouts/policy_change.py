"""How one policy of a job differs from another on the same rows: what they earn, and how they go about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from pydantic import BaseModel

from rft.core.estimates import RewardDifference, estimate_difference
from rft.core.rollout import Split
from rft.core.step_record import RolloutStats


class RowFigures(BaseModel):
    """What a policy did on one row; means over its graded rollouts."""

    rollouts: int
    reward: float
    tool_calls: float
    completion_tokens: float
    duration_s: float
    trace_id: str
    """Of one of them."""


class RowChange(BaseModel):
    """One row under both policies."""

    row_index: int
    before: RowFigures
    after: RowFigures


class ToolChange(BaseModel):
    """Calls of one tool per graded rollout; null where the step's record does not tell."""

    name: str
    before: float | None
    after: float | None


class LeftOut(BaseModel):
    """What one of the policies did that is not compared."""

    rows: int
    """Graded under this policy alone."""
    excluded_rollouts: int | None
    """Without a grade; null where the step's record does not tell."""


class PolicyChangeObject(BaseModel):
    """Two steps of a job, over the rows that have a graded rollout of both."""

    object: Literal["fine_tuning.job.policy_change"] = "fine_tuning.job.policy_change"
    split: Split
    before: int
    after: int
    """Steps."""
    reward: RewardDifference | None
    """Row by row; null without rows, or where nothing tells how the differences spread."""
    tools: list[ToolChange]
    left_out_before: LeftOut
    left_out_after: LeftOut
    data: list[RowChange]
    """By row."""


@dataclass(frozen=True, slots=True)
class GradedRollout:
    """What is compared of a rollout that has a grade."""

    row_index: int
    trace_id: str
    reward: float
    tool_calls: int
    completion_tokens: int
    duration_s: float


def policy_change(
    before: tuple[int, Sequence[GradedRollout], RolloutStats | None],
    after: tuple[int, Sequence[GradedRollout], RolloutStats | None],
    split: Split,
) -> PolicyChangeObject:
    """Each side: step, its graded rollouts, and the statistics of its record. Pure."""
    (first, one, one_stats), (second, other, other_stats) = before, after
    rows_before, rows_after = _by_row(one), _by_row(other)
    rows = sorted(rows_before.keys() & rows_after.keys())
    rewards = ([[each.reward for each in by_row[row]] for row in rows] for by_row in (rows_before, rows_after))
    changes = [
        RowChange(row_index=row, before=_figures(rows_before[row]), after=_figures(rows_after[row])) for row in rows
    ]
    return PolicyChangeObject(
        split=split,
        before=first,
        after=second,
        reward=estimate_difference(*rewards),
        tools=_tools(one_stats, other_stats),
        left_out_before=_left_out(len(rows_before) - len(rows), one_stats),
        left_out_after=_left_out(len(rows_after) - len(rows), other_stats),
        data=changes,
    )


def _left_out(rows: int, stats: RolloutStats | None) -> LeftOut:
    return LeftOut(rows=rows, excluded_rollouts=None if stats is None else stats.excluded)


def _by_row(rollouts: Sequence[GradedRollout]) -> Mapping[int, list[GradedRollout]]:
    by_row: dict[int, list[GradedRollout]] = {}
    for rollout in rollouts:
        by_row.setdefault(rollout.row_index, []).append(rollout)
    return by_row


def _figures(rollouts: Sequence[GradedRollout]) -> RowFigures:
    count = len(rollouts)
    return RowFigures(
        rollouts=count,
        reward=fsum(each.reward for each in rollouts) / count,
        tool_calls=sum(each.tool_calls for each in rollouts) / count,
        completion_tokens=sum(each.completion_tokens for each in rollouts) / count,
        duration_s=fsum(each.duration_s for each in rollouts) / count,
        trace_id=rollouts[0].trace_id,
    )


def _tools(before: RolloutStats | None, after: RolloutStats | None) -> list[ToolChange]:
    first, second = (
        {tool.name: tool.calls_per_rollout_mean for tool in stats.tools} if stats else None for stats in (before, after)
    )
    return [
        ToolChange(name=name, before=_calls(first, name), after=_calls(second, name))
        for name in sorted((first or {}).keys() | (second or {}).keys())
    ]


def _calls(calls: Mapping[str, float | None] | None, name: str) -> float | None:
    """A tool that a step's record does not name was not called."""
    return None if calls is None else calls.get(name, 0.0)
