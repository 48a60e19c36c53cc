"""Between which steps the rollouts lie that a filter may fit, as `rollout_ranges` tells for some steps at a time."""

from collections.abc import Mapping
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.rollouts.filters import Outcome, RolloutFilter
from rft.platform.store.said import STEPS_TOGETHER

_MAY_FIT: dict[str, LiteralString] = {
    "split": "split = %(split)s",
    "min_reward": "most_reward >= %(min_reward)s",
    "max_reward": "least_reward <= %(max_reward)s",
    "stop_reason": "%(stop_reason)s = any(stop_reasons)",
    "failure_code": "%(failure_code)s = any(failure_codes)",
    "fault": "failure_codes && %(fault_codes)s",
    "tool": "tool_bits & (1::bigint << %(tool_bit)s) <> 0",
    "min_tokens": "most_tokens >= %(min_tokens)s",
    "max_tokens": "least_tokens <= %(max_tokens)s",
    "min_duration_s": "most_duration >= %(min_duration_s)s",
    "max_duration_s": "least_duration <= %(max_duration_s)s",
}
"""What a field of a filter asks of what some steps have together."""
_HAS: dict[Outcome, LiteralString] = {"graded": "most_reward is not null", "failed": "has_unscored"}
_ELSEWHERE = frozenset({"step", "from_step", "to_step", "row_index", "contains", "q"})
"""Fields of a filter that are no figure of a rollout."""
_STEPS: LiteralString = "select min(steps), max(steps) from rollout_ranges where job_id = %(job_id)s"


def is_asked(wanted: RolloutFilter) -> bool:
    """Whether a filter asks for a figure of which some steps may have none."""
    return bool(wanted.model_dump(exclude_none=True, exclude={"split", *_ELSEWHERE}))


async def steps_that_may_fit(
    connection: AsyncConnection[TupleRow], wanted: RolloutFilter, values: Mapping[str, object]
) -> tuple[int, int] | None:
    """The first and the last step in which there may be a rollout that is wanted; None: there is none.

    `values`: the job's id, and what the filter asks for.
    """
    row = await (await connection.execute(_STEPS + _conditions(wanted), values)).fetchone()
    if row is None or row[0] is None:
        return None
    first = max(row[0] * STEPS_TOGETHER, wanted.step or 0, wanted.from_step or 0)
    upmost = ((row[1] + 1) * STEPS_TOGETHER - 1, wanted.step, wanted.to_step)
    last = min(step for step in upmost if step is not None)
    return (first, last) if first <= last else None


def _conditions(wanted: RolloutFilter) -> LiteralString:
    text: LiteralString = ""
    for name in wanted.model_dump(exclude_none=True, exclude={"outcome", *_ELSEWHERE}):
        text += " and " + _MAY_FIT[name]
    return text if wanted.outcome is None else text + " and " + _HAS[wanted.outcome]
