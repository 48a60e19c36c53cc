"""Customers' endpoints over all jobs: from what each job counted to one entry per address. Pure."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from rft.core.base import Record
from rft.core.endpoint_load import LimitReason, NamedLoad
from rft.core.failure import FailureCode, Stage
from rft.core.progress import RoundProgress
from rft.platform.lifecycle.records import JobHold
from rft.platform.rollouts.ledger_objects import EndpointHealth


class Load(BaseModel):
    """What an endpoint is given to bear now, by whoever makes the job's calls."""

    limit: int
    """Calls in flight at most."""
    reason: LimitReason
    why: str
    """The reason in words."""
    changed_at: float
    """Unix time in seconds since when that is the reason."""
    in_flight: int
    """Calls on their way; of all jobs together where `is_shared`."""
    queued: int
    """Calls that wait to be let in, counted alike."""
    calls_per_s: float
    """Attempts that ended, over the last minute, counted alike."""
    rate_limit: float | None
    """Calls started per second at most, where an order says so."""
    breaker: Literal["closed", "open", "half_open"]
    down_since: float | None
    """Unix time; null while it is up."""
    waits_until: float | None
    """Unix time before which no call goes out: the next probe, or what `Retry-After` asked for."""
    is_shared: bool
    """A gateway service makes the calls of all jobs."""


class JobCalls(BaseModel):
    """What one job has of an endpoint, over its latest steps."""

    job_id: str
    job_name: str | None
    status: str
    health: EndpointHealth
    in_flight: int
    """Calls without an answer yet. Where a grader's own are not known, rollouts that are graded, by whichever grader of
    the job. 0 where no round is under way."""
    queued: int
    """Those of them that wait on our side, for the limit of this endpoint."""
    is_held: bool
    """The job waits until the endpoint answers again."""
    load: Load | None
    """Null while the job does not run, and before the run called it."""


class EndpointOfJobs(BaseModel):
    """One address, with every job that calls it or called it lately."""

    stage: Stage
    url: str | None
    """Without secrets; null where the job's order does not tell."""
    names: list[str]
    """What jobs call it."""
    attempts: int
    errors: int
    client_errors: int
    """Answered with a 4xx, which the model read."""
    errors_by_code: dict[FailureCode, int]
    in_flight: int
    """Of all jobs; a job that has several names for one grader counts once."""
    queued: int
    is_held: bool
    jobs: list[JobCalls]


class CallingJob(Record):
    """One job, and what is known of its endpoints."""

    id: str
    name: str | None
    status: str
    addresses: dict[tuple[Stage, str], str]
    """By stage and name."""
    round: RoundProgress | None
    loads: tuple[NamedLoad, ...] = ()
    hold: JobHold | None
    health: tuple[EndpointHealth, ...]


def by_address(jobs: Sequence[CallingJob]) -> list[EndpointOfJobs]:
    """An entry per stage and address; the one with the most trouble first."""
    found: dict[tuple[Stage, str], list[tuple[str | None, JobCalls]]] = {}
    for job in jobs:
        for health in job.health:
            url = job.addresses.get((health.stage, health.endpoint))
            found.setdefault((health.stage, url or health.endpoint), []).append((url, _calls(job, health)))
    entries = [_entry(stage, calls) for (stage, _), calls in found.items()]
    return sorted(entries, key=lambda one: (not one.is_held, -_trouble(one), one.url or one.names[0]))


def _calls(job: CallingJob, health: EndpointHealth) -> JobCalls:
    load = next((one for one in job.loads if (one.stage, one.endpoint) == (health.stage, health.endpoint)), None)
    in_flight, queued = _without_answer(job, health, load)
    return JobCalls(
        job_id=job.id,
        job_name=job.name,
        status=job.status,
        health=health,
        in_flight=in_flight,
        queued=queued,
        is_held=job.hold is not None and _is_of(job.hold, health),
        load=None if load is None else _load(load),
    )


def _without_answer(job: CallingJob, health: EndpointHealth, load: NamedLoad | None) -> tuple[int, int]:
    """Calls that have no answer yet, and those of them that wait on our side."""
    progress = job.round
    if progress is None:
        return 0, 0
    if health.stage is Stage.TOOL:
        calling = progress.calling.get(health.endpoint, 0)
        return calling, min(calling, progress.queued.get(health.endpoint, 0))
    if not any(one.stage is Stage.GRADER and not one.is_shared for one in job.loads):
        return progress.grading, 0
    # The job's own process makes the calls: a grader without a load was not called yet.
    return (0, 0) if load is None else (load.load.in_flight + load.load.queued, load.load.queued)


def _load(told: NamedLoad) -> Load:
    return Load(**told.load.model_dump(), why=told.load.why, is_shared=told.is_shared)


def _entry(stage: Stage, calls: Sequence[tuple[str | None, JobCalls]]) -> EndpointOfJobs:
    jobs = [one for _, one in calls]
    codes: dict[FailureCode, int] = {}
    for job in jobs:
        for code, share in job.health.errors_by_code.items():
            codes[code] = codes.get(code, 0) + share.count
    return EndpointOfJobs(
        stage=stage,
        url=calls[0][0],
        names=sorted({job.health.endpoint for job in jobs}),
        attempts=sum(job.health.attempts for job in jobs),
        errors=sum(job.health.errors for job in jobs),
        client_errors=sum(job.health.client_errors for job in jobs),
        errors_by_code=dict(sorted(codes.items())),
        in_flight=_together(stage, jobs, [job.in_flight for job in jobs]),
        queued=_together(stage, jobs, [job.queued for job in jobs]),
        is_held=any(job.is_held for job in jobs),
        jobs=jobs,
    )


def _together(stage: Stage, calls: Sequence[JobCalls], counts: Sequence[int]) -> int:
    """The sum over all jobs. Each name of a grader at one address is told all calls there, each tool its own."""
    if stage is Stage.TOOL:
        return sum(counts)
    most: dict[str, int] = {}
    for one, count in zip(calls, counts, strict=True):
        most[one.job_id] = max(most.get(one.job_id, 0), count)
    return sum(most.values())


def _trouble(entry: EndpointOfJobs) -> float:
    return (entry.errors + entry.client_errors) / entry.attempts if entry.attempts else 0.0


def _is_of(hold: JobHold, health: EndpointHealth) -> bool:
    """A hold names its endpoint in words."""
    return hold.stage is health.stage and f"'{health.endpoint}'" in hold.endpoint
