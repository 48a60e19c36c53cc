"""A job's whole course in a reply of bounded size, however many steps it has."""

from rft.platform.rollouts.curve_repository import CurveRepository
from rft.platform.rollouts.thinning import thinned
from rft.platform.store.unit_of_work import UnitOfWork


async def job_curves(uow: UnitOfWork, job_id: str, *, points: int, from_step: int | None, to_step: int | None) -> str:
    """A `CurvesObject` as JSON over a window of steps, both ends counted; by default all of them."""
    curves = CurveRepository(uow.connection)
    course = await curves.course(job_id, from_step=from_step, to_step=to_step)
    if course is None:
        return _document("", steps=0, rollouts=0, excluded=0)
    parts = course.stretches
    chosen = thinned(parts, course.validated, course.saved, first=course.first, last=course.last, points=points)
    return _document(
        await curves.points(job_id, chosen),
        steps=sum(part.steps for part in parts),
        rollouts=sum(part.rollouts for part in parts),
        excluded=sum(part.excluded for part in parts),
    )


def _document(points: str, *, steps: int, rollouts: int, excluded: int) -> str:
    """Points are put in as they are: they were checked before they were stored."""
    head = f'{{"object":"fine_tuning.job.curves","steps":{steps},"rollouts":{rollouts},"excluded":{excluded}'
    return f'{head},"data":[{points}]}}'
