"""How one policy of a job differs from another on the same rows: what they earn, and how they go about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean
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
    """Calls of one tool per graded rollout on the rows compared, each of which counts the same."""

    name: str
    before: float
    after: float


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
    calls_by_tool: Mapping[str, int]


def policy_change(
    before: tuple[int, Sequence[GradedRollout], RolloutStats | None],
    after: tuple[int, Sequence[GradedRollout], RolloutStats | None],
    split: Split,
) -> PolicyChangeObject:
    """Each side: step, its graded rollouts, and the statistics of its record. Pure."""
    (first, one, one_stats), (second, other, other_stats) = before, after
    rows_before, rows_after = _by_row(one), _by_row(other)
    rows = sorted(rows_before.keys() & rows_after.keys())
    sides = [[by_row[row] for row in rows] for by_row in (rows_before, rows_after)]
    rewards = ([[each.reward for each in row] for row in side] for side in sides)
    changes = [
        RowChange(row_index=row, before=_figures(first_ones), after=_figures(later_ones))
        for row, first_ones, later_ones in zip(rows, *sides, strict=True)
    ]
    return PolicyChangeObject(
        split=split,
        before=first,
        after=second,
        reward=estimate_difference(*rewards),
        tools=_tools(*sides),
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


def _tools(before: Sequence[Sequence[GradedRollout]], after: Sequence[Sequence[GradedRollout]]) -> list[ToolChange]:
    """Of the same rows on either side; each of them counts the same."""
    names = {name for row in (*before, *after) for each in row for name in each.calls_by_tool}
    return [ToolChange(name=name, before=_calls(before, name), after=_calls(after, name)) for name in sorted(names)]


def _calls(rows: Sequence[Sequence[GradedRollout]], name: str) -> float:
    return fmean(fmean(each.calls_by_tool.get(name, 0) for each in row) for row in rows)
