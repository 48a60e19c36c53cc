"""What can be done with checkpoints."""

from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.checkpoints.repository import CheckpointRepository, CheckpointRow
from rft.platform.checkpoints.schemas import CheckpointObject
from rft.platform.jobs.model_names import checkpoint_model_name, fine_tuned_model_name
from rft.platform.jobs.repository import JobRow
from rft.platform.jobs.service import find_job
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import UnitOfWork


async def list_checkpoints(
    uow: UnitOfWork, settings: Settings, job_id: str, *, after: str | None, limit: int
) -> ListPage[CheckpointObject]:
    """One page of a job's kept checkpoints, newest first."""
    job = await find_job(uow, job_id)
    checkpoints = CheckpointRepository(uow.connection)
    if after is not None and not await checkpoints.has_place(job_id, after):
        raise unknown_cursor(after)
    rows = await checkpoints.page(job_id, after=after, limit=limit + 1)
    return to_page([_to_checkpoint_object(row, job, settings) for row in rows], limit=limit)


def _to_checkpoint_object(row: CheckpointRow, job: JobRow, settings: Settings) -> CheckpointObject:
    return CheckpointObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        fine_tuning_job_id=row.job_id,
        fine_tuned_model_checkpoint=checkpoint_model_name(fine_tuned_model_name(job, settings), row.step),
        step_number=row.step,
        metrics=row.metrics,
    )
