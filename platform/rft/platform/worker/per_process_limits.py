"""Several processes on one host that call the same endpoints: each knows only its own calls."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.egress.limits import Limits
from rft.platform.lifecycle.events import add_event
from rft.platform.settings import Settings


def limits_of_eval_run(settings: Settings) -> Limits:
    """One run's part: as many as run at once together keep to what the endpoints' owners say."""
    return Limits.of(settings.egress, sharers=settings.eval_slots)


def limits_warning(settings: Settings) -> str | None:
    """What is to be said about trainers without gateway services; None where there is nothing to warn of."""
    pairs = (("tools", settings.tool_gateway_url), ("graders", settings.grader_gateway_url))
    alone = " and ".join(names for names, url in pairs if url is None)
    if settings.train_slots < 2 or not alone:
        return None
    return (
        f"Up to {settings.train_slots} jobs train here at once, and each keeps limits of its own for calls to {alone}:"
        f" an endpoint that several jobs share may get up to {settings.train_slots} times what its limits say."
        " Gateway services keep one limit for all jobs."
    )


async def warn_of_limits(connection: AsyncConnection[TupleRow], job_id: str, settings: Settings) -> None:
    """Say it in the job's events, too."""
    warning = limits_warning(settings)
    if warning is not None:
        await add_event(connection, job_id, warning, level="warn", data={"code": "own_limits"}, key="own-limits")
