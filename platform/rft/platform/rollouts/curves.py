"""A job's whole course in a reply of bounded size, however many steps it has."""

from rft.platform.rollouts.curve_repository import CurveRepository
from rft.platform.rollouts.thinning import thinned
from rft.platform.store.unit_of_work import UnitOfWork


async def job_curves(uow: UnitOfWork, job_id: str, *, points: int, from_step: int | None, to_step: int | None) -> str:
    """A `CurvesObject` as JSON over a window of steps, both ends counted; by default all of them."""
    curves = CurveRepository(uow.connection)
    ends = await curves.ends(job_id)
    first, last = (0, -1) if ends is None else ends
    first, last = max(first, from_step or 0), last if to_step is None else min(last, to_step)
    if first > last:
        return _document([], steps=0, rollouts=0, excluded=0)
    # From the very beginning, stretches are whole, also where a job has no step 0.
    stretches = await curves.stretches(job_id, first=first if from_step else 0, last=last)
    validated, saved = await curves.marked(job_id, first=first, last=last)
    chosen = thinned(stretches, validated, saved, first=first, last=last, points=points)
    return _document(
        await curves.points(job_id, chosen),
        steps=sum(row.steps for row in stretches),
        rollouts=sum(row.rollouts for row in stretches),
        excluded=sum(row.excluded for row in stretches),
    )


def _document(points: list[str], *, steps: int, rollouts: int, excluded: int) -> str:
    """Points are put in as they are: they were checked before they were stored."""
    head = f'{{"object":"fine_tuning.job.curves","steps":{steps},"rollouts":{rollouts},"excluded":{excluded}'
    return head + ',"data":[' + ",".join(points) + "]}"
