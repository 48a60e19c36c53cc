"""What the graders of a rollout were shown, put together again from the job's file and the rollout's messages."""

from typing import Literal

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import BaseModel

from rft.core.events import RolloutDone
from rft.core.finished_trace import FinishedTrace
from rft.grader_gateway.answer_format import as_graded
from rft.grader_gateway.contract import to_item, to_sample
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import NotFound
from rft.platform.jobs.repository import JobRepository
from rft.platform.jobs.rows import RowsGone, rows_of
from rft.platform.jobs.run_spec import described_tools, ordered_format
from rft.platform.rollouts.begun_repository import BegunRepository
from rft.platform.rollouts.repository import RolloutRepository
from rft.platform.store.stored_json import StoredJson
from rft.rollouts.group import with_tools


class GradingObject(BaseModel):
    """What graders were shown of a rollout; what they said of it is in the rollout's record."""

    object: Literal["fine_tuning.job.rollout.grading"] = "fine_tuning.job.rollout.grading"
    trace_id: str
    item: StoredJson | None
    """The row, as graders get it; null where the file is no longer there."""
    sample: StoredJson | None
    """The answer and everything before it, as graders get it. An endpoint may have been shown shorter tool outputs,
    where they were too large to be sent."""
    missing: str | None
    """Why there is neither."""


async def find_grading(services: Services, job_id: str, trace_id: str) -> GradingObject:
    """Raises NotFound."""
    async with services.database.transaction() as connection:
        job = await JobRepository(connection).get(job_id)
        record = None if job is None else await _record(connection, job_id, trace_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.", param="fine_tuning_job_id", code="not_found")
    if record is None:
        raise NotFound(f"Job {job_id} has no rollout {trace_id}.", param="trace_id", code="not_found")
    wanted = {record.key.row_index}
    try:
        rows = rows_of(services.database, services.file_store, job, record.key.split, wanted)
        found = [with_tools(row, described_tools(job, services.settings)) async for _, row in rows]
    except RowsGone as gone:
        return GradingObject(trace_id=trace_id, item=None, sample=None, missing=f"{gone}.")
    if not found:
        return GradingObject(trace_id=trace_id, item=None, sample=None, missing="The job's file has no such row.")
    trace = FinishedTrace.of(found[0], record.messages, record.stop_reason, model=job.model)
    trace = as_graded(trace, ordered_format(job))
    return GradingObject(trace_id=trace_id, item=to_item(found[0].item), sample=to_sample(trace), missing=None)


async def _record(connection: AsyncConnection[TupleRow], job_id: str, trace_id: str) -> RolloutDone | None:
    """Also of a rollout that ended and counts no more."""
    record = await RolloutRepository(connection).record(job_id, trace_id)
    if record is not None:
        return record
    begun = await BegunRepository(connection).get(job_id, trace_id)
    return None if begun is None else begun.record
