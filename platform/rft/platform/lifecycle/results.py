"""What stays of a run when it is over: the result file (contract section 1.6) and the job's usage.

Written in the transaction that ends the job, its bytes beside its row: there once the job is over, and once only.
"""

import csv
import io
from collections.abc import Sequence

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import Stage
from rft.core.grade import CODE_ERRORS
from rft.core.ids import digest, public_id
from rft.core.job import JobStatus
from rft.platform.lifecycle.events import metrics_data
from rft.platform.lifecycle.measurement_repository import measured_stats
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.lifecycle.usage import entries, number, part_of, usage_of
from rft.platform.store.file_contents import insert_with_content

FILENAME = "step_metrics.csv"
PURPOSE = "fine-tune-results"
_FIRST = (
    "step",
    "train_mean_reward",
    "full_valid_mean_reward",
    "full_valid_mean_reward_low",
    "full_valid_mean_reward_high",
    "full_valid_mean_parse_error",
    "completion_tokens_mean",
    "valid_completion_tokens_mean",
    "reasoning_tokens_mean",
    "valid_reasoning_tokens_mean",
    "mean_unresponsive_rewards",
    "sampling_logp_difference",
    "truncated_share",
    "staleness_mean",
    "sampling_duration",
    "training_duration",
    "eval_duration",
    "total_duration",
    "grader_error_count",
)
"""Columns that every file has, in this order; those of graders and tools follow by name."""
_TIMES = {
    "sampling_duration": "sampling",
    "training_duration": "training",
    "eval_duration": "eval",
    "total_duration": "full_iteration",
}
_OF_TOOLS = ("tool_calls_to_", "valid_tool_calls_to_", "train_error_count_", "valid_error_count_")
_OF_ROLLOUTS = ("rollouts", "graded", "excluded", "replaced", "zero_variance_groups")
_OF_UPDATE = ("loss", "grad_norm", "entropy", "learning_rate", "trained_tokens")


async def write_results(connection: AsyncConnection[TupleRow], job_id: str, status: JobStatus) -> None:
    """Write down what the run came to, as the job ends with this status in the caller's transaction.

    A run that did not finish a step has no result file, unless it succeeded.
    """
    jobs, steps = LifecycleRepository(connection), await metrics_data(connection, job_id)
    if not steps:
        return
    usage = usage_of(steps, await measured_stats(connection, job_id))
    await jobs.set_usage(job_id, usage.model_dump_json())
    if status is not JobStatus.SUCCEEDED and not any(number(data, "step") > 0 for data in steps):
        return
    file_id = public_id("file-", digest(job_id, "result file"), length=22)
    content = to_csv([result_row(data) for data in steps])
    await insert_with_content(connection, id=file_id, filename=FILENAME, purpose=PURPOSE, content=content)
    await jobs.set_result_files(job_id, [file_id])


def to_csv(rows: Sequence[JsonObject]) -> bytes:
    """One line per step under one line of names; what a step does not have is left empty."""
    names = {name for row in rows for name in row}
    columns = [*_FIRST, *sorted(names.difference(_FIRST))]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def result_row(data: JsonObject) -> JsonObject:
    """One step's columns, from the data of its metrics event."""
    step_times = part_of(part_of(data.get("timing")).get("step"))
    row: JsonObject = {name: data.get(name) for name in _FIRST if name in data}
    row |= {column: step_times.get(name) for column, name in _TIMES.items()}
    row |= {name: value for name, value in data.items() if name.startswith(_OF_TOOLS)}
    row |= _scores(data) | _errors(data) | {"grader_error_count": _failed_gradings(data)}
    for split in ("train", "valid"):
        counts = part_of(part_of(data.get("rollouts")).get(split))
        row |= {f"{split}_{name}": counts.get(name) for name in _OF_ROLLOUTS}
    row["train_resampled_rollouts"] = part_of(part_of(data.get("rollouts")).get("train")).get("resampled_rollouts")
    update = part_of(data.get("optimization"))
    return row | {name: update.get(name) for name in _OF_UPDATE}


def _scores(data: JsonObject) -> JsonObject:
    return {
        f"scores/graders/{grader['type']}/{grader['name']}/{split}_reward_mean": grader.get(f"{split}_reward_mean")
        for grader in entries(part_of(data.get("scores")).get("graders"))
        for split in ("train", "valid")
    }


def _errors(data: JsonObject) -> JsonObject:
    columns: JsonObject = {}
    for grader in entries(part_of(data.get("errors")).get("graders")):
        for name, value in grader.items():
            if name not in ("name", "type") and _is_figure(value):
                columns[f"errors/graders/{grader['type']}/{grader['name']}/errors/{name}"] = value
    return columns


def _failed_gradings(data: JsonObject) -> int:
    """Rollouts that a grader left without a score of its own, whatever its kind and whatever the error."""
    places = [("failures_by_stage", Stage.GRADER), *(("model_errors", name) for name in CODE_ERRORS)]
    return sum(int(number(data, "rollouts", split, *place)) for split in ("train", "valid") for place in places)


def _is_figure(value: JsonValue) -> bool:
    return value is None or isinstance(value, int | float)
