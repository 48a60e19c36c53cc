"""How fast a job's steps follow each other, in words: what sets the pace, and what another staleness would change."""

from collections.abc import Sequence

from pydantic import BaseModel

from rft.core.events import StepDone
from rft.core.pacing import Bound, Pace, StepWork, advised_staleness, pace, work_of


class PaceObject(BaseModel):
    """What sets the pace, by the model of `max_staleness`; as the last steps show it."""

    step_s: float
    """That a step takes."""
    bound: Bound
    message: str
    """What sets the pace, and what would change it."""
    advised_staleness: int
    """No larger `max_staleness` makes steps much faster."""
    advised_step_s: float
    """That a step would take with it."""


def pace_of(records: Sequence[StepDone], max_staleness: int) -> PaceObject | None:
    """From the last of these records; None where none tells enough."""
    work = work_of(records)
    if work is None:
        return None
    now, advised = pace(work, max_staleness), advised_staleness(work)
    then = pace(work, advised)
    return PaceObject(
        step_s=now.step_s,
        bound=now.bound,
        message=f"{_what_sets_it(work, now, max_staleness)} {_advice(now, then, max_staleness, advised)}",
        advised_staleness=advised,
        advised_step_s=then.step_s,
    )


def _what_sets_it(work: StepWork, now: Pace, max_staleness: int) -> str:
    update, rollouts = f"{work.update_s:.1f} s of update and evaluation", f"{work.rollouts_s:.1f} s of rollouts"
    if max_staleness == 0:
        return f"A step takes {now.step_s:.1f} s: {rollouts}, then {update}."
    match now.bound:
        case Bound.ROLLOUTS:
            return f"Steps wait for their rollouts, {work.rollouts_s:.1f} s from the first to the slowest."
        case Bound.ENDPOINT:
            return f"Steps wait for the calls of {now.endpoint!r}, of which it bears no more at once."
        case Bound.UPDATE | Bound.COMPUTE:
            return f"Steps wait for nothing but what is computed: {update}, and samples."


def _advice(now: Pace, then: Pace, max_staleness: int, advised: int) -> str:
    if advised > max_staleness:
        return f"With max_staleness {advised} one would take about {then.step_s:.1f} s."
    if advised < max_staleness:
        return f"max_staleness {advised} would be about as fast."
    if now.bound in (Bound.UPDATE, Bound.COMPUTE):
        return "Faster tools would change nothing; more processors or a GPU would."
    return "More processors would change little."
