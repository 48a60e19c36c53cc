"""A job under a lease, and its trainer's events as they are stored."""

from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.worker.ingest import Ingest, Ingested
from rft.platform.worker.log_line import LogLine
from rft.platform.worker.metrics_event import GraderLabel
from tests.integration.worker.workbench import Workbench


async def leased(bench: Workbench) -> Ingest:
    """The writer of a running job."""
    job_id = await bench.queued_job()
    async with bench.database.connection() as connection:
        lease = await take(connection, job_id, owner="here/1/a", ttl_s=600, slots=1000)
    assert isinstance(lease, Lease)
    return Ingest(lease, (GraderLabel("judge", "endpoint"),), "ft:tiny:local:unit:x")


async def store(bench: Workbench, ingest: Ingest, lines: list[LogLine]) -> Ingested:
    async with bench.database.transaction() as connection:
        return await ingest.batch(connection, lines)
