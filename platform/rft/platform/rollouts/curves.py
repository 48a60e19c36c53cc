"""A job's curves in a reply of bounded size, however many steps it has."""

from rft.platform.rollouts.curve_repository import CurveRepository
from rft.platform.rollouts.downsampling import downsample
from rft.platform.store.unit_of_work import UnitOfWork


async def job_curves(uow: UnitOfWork, job_id: str, *, points: int, from_step: int | None, to_step: int | None) -> str:
    """A `CurvesObject` as JSON over a window of steps, both ends counted; by default all of them."""
    curves = CurveRepository(uow.connection)
    series = await curves.series(job_id, from_step=from_step, to_step=to_step)
    if series is None:
        return _document("", steps=0, rollouts=0, excluded=0)
    chosen = downsample(
        series.candidates, series.validated, series.saved, first=series.first, last=series.last, points=points
    )
    data = await curves.points(job_id, chosen)
    return _document(data, steps=series.steps, rollouts=series.rollouts, excluded=series.excluded)


def _document(points: str, *, steps: int, rollouts: int, excluded: int) -> str:
    """Points are put in as they are: they were checked before they were stored."""
    head = f'{{"object":"fine_tuning.job.curves","steps":{steps},"rollouts":{rollouts},"excluded":{excluded}'
    return f'{head},"data":[{points}]}}'
