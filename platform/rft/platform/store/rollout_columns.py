"""The columns of `rollouts`, and of `begun_rollouts`, which has the same key: spelled here and nowhere else."""

from datetime import datetime
from typing import LiteralString

from rft.core.base import Record
from rft.core.failure import Stage
from rft.core.rollout import Split

_PLACE: LiteralString = "split, step, epoch, row_index, group_index, attempt, policy_version"
KEY: LiteralString = "trace_id, " + _PLACE
"""Which conversation a row is of."""
KEY_TYPES = ("text", "text", "int4", "int4", "int4", "int4", "int4", "int4")
RESULT: LiteralString = "reward, failure_code, failure_stage, stop_reason, tool_calls, completion_tokens, duration_s"
"""What it came to; of `rollouts` alone."""
RESULT_TYPES = ("float8", "text", "text", "text", "int4", "int4", "float8")
COLUMNS: LiteralString = KEY + ", " + RESULT + ", created_at"
"""A `RolloutRow`, field by field."""
SUMMARY: LiteralString = (
    "trace_id as id, 'fine_tuning.job.rollout' as object, "
    + _PLACE
    + ", "
    + RESULT
    + ", floor(extract(epoch from created_at))::bigint as created_at"
)
"""The same as the API shows it."""
PREVIEWS: LiteralString = "left(rollout_prompt(record), 300) as prompt, left(rollout_answer(record), 300) as answer"
"""What a list shows of the conversation."""
LAST_TOOL_BIT = 62
"""Of `tool_bits`; shared by all tools beyond the first 62: a model may call what nobody declared."""


class RolloutKeyRow(Record):
    """Which conversation a row is of."""

    trace_id: str
    split: Split
    step: int
    epoch: int
    row_index: int
    group_index: int
    attempt: int
    policy_version: int


class RolloutRow(RolloutKeyRow):
    """One row of `rollouts` without its record."""

    reward: float | None
    failure_code: str | None
    failure_stage: Stage | None
    stop_reason: str | None
    tool_calls: int
    completion_tokens: int
    duration_s: float
    created_at: datetime
