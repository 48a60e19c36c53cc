"""How fast a job's steps follow each other, in words: what sets the pace, and what would change it."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from rft.core.endpoint_load import NamedLoad
from rft.core.events import StepDone
from rft.core.failure import Stage
from rft.core.pacing import (
    RECENT_STEPS,
    Bound,
    EndpointCalls,
    Pace,
    StepWork,
    advised_staleness,
    pace,
    recent_updates,
    settled_limit,
    work_of,
)
from rft.egress.endpoint import endpoint_key
from rft.platform.rollouts.ledger_repository import CalledRow

LEARNED_AFTER_25_STEPS = {0: 0.92, 1: 0.90, 2: 0.84, 4: 0.69}
"""Validation reward of the demo's task by `max_staleness`, from the table in docs/training.md."""


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


def calls_of(
    made: Sequence[CalledRow],
    records: Sequence[StepDone],
    window: range,
    loads: Sequence[NamedLoad],
    addresses: Mapping[tuple[Stage, str], str],
) -> list[EndpointCalls]:
    """What a step asks of each address, and what that bears. Pure.

    `made`: during the steps of the window, of which `records` tell; `addresses`: by stage and name, since tools
    behind one address share its limit.
    """
    seen = [record for record in records if record.step in window]
    trained = sum(record.train.rollouts for record in seen if record.train is not None)
    evaluated = sum(record.valid.rollouts for record in seen if record.valid is not None)
    share = trained / max(1, trained + evaluated) / len(window)
    by_address: dict[str, list[CalledRow]] = {}
    for row in made:
        url = addresses.get((row.stage, row.endpoint))
        by_address.setdefault(f"{row.stage} {endpoint_key(url) if url else row.endpoint}", []).append(row)
    told = {(load.stage, load.endpoint): load.load for load in loads}
    found: list[EndpointCalls] = []
    for rows in by_address.values():
        attempts = sum(row.attempts for row in rows)
        load = next((told[row.stage, row.endpoint] for row in rows if (row.stage, row.endpoint) in told), None)
        found.append(
            EndpointCalls(
                endpoint=_in_words(rows),
                calls=attempts * share,
                latency_s=sum(row.attempts * row.latency_s for row in rows) / attempts,
                queued_s=sum(row.attempts * row.queued_s for row in rows) / attempts,
                limit=None if load is None else settled_limit(load),
                why="" if load is None else load.why,
                rate_limit=None if load is None else load.rate_limit,
            )
        )
    return found


def bearing_of(loads: Sequence[NamedLoad]) -> list[tuple[object, ...]]:
    """What `calls_of` makes use of: other than the loads, it does not change with each call. Pure."""
    return [
        (one.stage, one.endpoint, limit, one.load.reason if limit is not None else None, one.load.rate_limit)
        for one in loads
        for limit in (settled_limit(one.load),)
    ]


def _in_words(rows: Sequence[CalledRow]) -> str:
    *others, last = sorted({f"`{row.endpoint}`" for row in rows})
    stage = rows[0].stage.value
    return f"{stage}s {', '.join(others)} and {last}" if others else f"{stage} {last}"


def pace_of(
    records: Sequence[StepDone], max_staleness: int, calls: Sequence[EndpointCalls] = (), *, is_shared: bool = True
) -> PaceObject | None:
    """From the last of these records; None where none tells enough. `calls`: a step's, to each endpoint; `is_shared`:
    samples and updates are computed by the same processors."""
    work = work_of(records, calls, is_shared=is_shared)
    if work is None:
        return None
    now, advised = pace(work, max_staleness), advised_staleness(work)
    then = pace(work, advised)
    crowded = next((one for one in calls if one.endpoint == now.endpoint), None)
    told = _what_sets_it(work, now, max_staleness) if crowded is None else _what_it_bears(crowded)
    return PaceObject(
        step_s=now.step_s,
        bound=now.bound,
        message=f"{told} {_advice(now, then, max_staleness, advised)}",
        advised_staleness=advised,
        advised_step_s=then.step_s,
    )


def window_of(records: Sequence[StepDone]) -> range | None:
    """The steps that the pace is read from; None where it cannot be read."""
    recent = recent_updates(records)
    if not recent:
        return None
    return range(max(recent[0].step, recent[-1].step + 1 - RECENT_STEPS), recent[-1].step + 1)


def _what_sets_it(work: StepWork, now: Pace, max_staleness: int) -> str:
    update, rollouts = f"{work.update_s:.1f} s of update and evaluation", f"{work.rollouts_s:.1f} s of rollouts"
    if max_staleness == 0:
        return f"A step takes {now.step_s:.1f} s: {rollouts}, then {update}."
    if now.bound is Bound.ROLLOUTS:
        return f"Steps wait for their rollouts, {work.rollouts_s:.1f} s from the first to the slowest."
    return f"Steps wait for nothing but what is computed: {update}, and samples."


def _what_it_bears(crowded: EndpointCalls) -> str:
    verb = "bear" if " and " in crowded.endpoint else "bears"
    if crowded.limit and crowded.seconds == crowded.calls * crowded.latency_s / crowded.limit:
        bearing = f"{verb} {crowded.limit} call{'' if crowded.limit == 1 else 's'} at once ({crowded.why})"
    else:
        bearing = f"{verb} {crowded.rate_limit:g} calls a second (rate_limit)"
    return f"Your {crowded.endpoint} {bearing}: a step's {crowded.calls:.0f} calls take {crowded.seconds:.1f} s."


def _advice(now: Pace, then: Pace, max_staleness: int, advised: int) -> str:
    if advised > max_staleness:
        faster = f"With max_staleness {advised} one would take about {then.step_s:.1f} s. {_older_policies()}"
        return f"{faster} A second GPU would change nothing." if then.bound is Bound.ENDPOINT else faster
    no_faster = "A second GPU would change nothing: only more calls at once, or faster ones, would."
    fewer = f"max_staleness {advised} would be about as fast, and newer policies teach more per step."
    if now.bound is Bound.ENDPOINT:
        return f"{no_faster} {fewer}" if advised < max_staleness else no_faster
    if advised < max_staleness:
        return fewer
    if now.bound in (Bound.UPDATE, Bound.COMPUTE):
        return "Faster tools would change nothing; more processors or a GPU would."
    return "More processors would change little."


def _older_policies() -> str:
    staleness, rewards = zip(*LEARNED_AFTER_25_STEPS.items(), strict=True)
    return (
        f"Older policies teach less per step, though: after 25 steps the demo's reward is"
        f" {', '.join(f'{reward:.2f}' for reward in rewards)} with max_staleness {', '.join(map(str, staleness))}."
    )
