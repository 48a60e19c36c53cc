"""What the list of evals tells of each one's latest run."""

from collections.abc import Sequence

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import BaseModel

from rft.core.estimates import RewardEstimate
from rft.platform.api.wire import UnixTime
from rft.platform.evals.output_item_repository import OutputItemRepository
from rft.platform.evals.run_repository import RunRepository, RunRow, RunStatus
from rft.platform.evals.schemas import EvalObject


class LatestRunObject(BaseModel):
    """Ours: the run of an eval that was ordered last."""

    id: str
    name: str
    status: RunStatus
    is_cancel_requested: bool
    model: str
    """Empty where nothing is sampled."""
    created_at: UnixTime
    finished_at: UnixTime | None
    samples: int | None
    """Samples in all, once the items are counted."""
    finished: int
    """Samples that are done, those without a verdict too."""
    errored: int
    """Samples without a verdict."""
    passed: RewardEstimate | None
    """Share of samples that pass, with its interval at 95 %; null until the run is over."""
    score: RewardEstimate | None
    """The same of the score, where the eval has one criterion."""


class ListedEval(EvalObject):
    """An eval as it is listed."""

    latest_run: LatestRunObject | None
    """Ours: null where there is no run."""


async def latest_runs(connection: AsyncConnection[TupleRow], eval_ids: Sequence[str]) -> dict[str, LatestRunObject]:
    """By eval; those without a run are missing. A fixed number of queries, however many evals."""
    runs = await RunRepository(connection).latest_of(eval_ids)
    # The items of those that are over are in their figures.
    counts = await OutputItemRepository(connection).counts([run.id for run in runs if run.figures is None])
    return {
        run.eval_id: _told(run, finished=told.samples if told else 0, errored=told.errored if told else 0)
        for run in runs
        for told in (counts.get(run.id),)
    }


def _told(run: RunRow, *, finished: int, errored: int) -> LatestRunObject:
    """`finished` and `errored` count where there are no figures."""
    figures = run.figures
    criteria = () if figures is None else figures.criteria
    return LatestRunObject(
        id=run.id,
        name=run.name,
        status=run.status,
        is_cancel_requested=run.is_cancel_requested,
        model=run.model,
        created_at=int(run.created_at.timestamp()),
        finished_at=None if run.finished_at is None else int(run.finished_at.timestamp()),
        samples=None if run.rows is None else run.rows * run.samples_per_row,
        finished=finished if figures is None else figures.samples + figures.errored,
        errored=errored if figures is None else figures.errored,
        passed=None if figures is None else figures.passed,
        score=criteria[0].score if len(criteria) == 1 else None,
    )
