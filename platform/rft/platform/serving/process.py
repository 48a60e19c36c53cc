"""One serving process of ours, under a lease: from its start to its end, whichever way it ends."""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from rft.platform.child_process import ChildProcess, exit_message, launch, log_tail
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Lease, LeaseLost
from rft.platform.serving.repository import ServingRepository
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.serving_wire.endpoint_file import remove_endpoint
from rft.serving_wire.records import ServingSpec

_LOG = logging.getLogger(__name__)
_GRACE_S = 3.0
_LOG_FILE = "serving.log"


@dataclass(slots=True)
class ServingProcess:
    """A child and what is kept for it."""

    folder: Path
    child: ChildProcess
    lease: Lease
    needed_bytes: int = 0
    """Memory that it takes until it listens; 0 where that is unknown."""
    answering: int = 0
    """Requests of this process of the platform that it answers now."""
    has_listened: bool = False
    """It has served: its end is no failed start."""
    used_at: float = field(default_factory=time.monotonic)
    expected_until: float = 0.0
    """Who was told that it is being loaded comes again by then."""
    keeping: "asyncio.Task[None] | None" = None

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self.child.returncode is not None

    def why_ended(self) -> str:
        """How, and the last line that it wrote."""
        last = log_tail(self.folder / _LOG_FILE, lines=1)
        return f"{exit_message(self.child.returncode)}{f': {last}' if last else ''}"

    async def stop(self) -> None:
        """Ask it to end, make it, and give its lease back."""
        await self.child.stop(_GRACE_S)
        if self.keeping is not None:
            await asyncio.gather(self.keeping, return_exceptions=True)


async def start_process(
    spec: ServingSpec, lease: Lease, settings: Settings, database: Database, command: tuple[str, ...]
) -> ServingProcess:
    """Start it; it listens once its model is loaded. Raises OSError."""
    asked_at, folder = time.monotonic(), Path(spec.folder)
    remove_endpoint(folder)
    child = await launch(command, log=folder / _LOG_FILE, stdin=spec.model_dump_json().encode())
    process = ServingProcess(folder, child, lease)
    process.keeping = asyncio.create_task(_keep(process, settings, database, asked_at), name=f"keep {lease.id}")
    return process


async def _keep(process: ServingProcess, settings: Settings, database: Database, asked_at: float) -> None:
    """Its lease for as long as it runs; it ends with the lease, and the lease with it."""
    beat = Heartbeat(
        database,
        process.lease,
        settings.lease_ttl_s,
        settings.heartbeat_s,
        confirmed_at=asked_at,
        on_lost=process.child.kill,
    )
    async with beat:
        await process.child.process.wait()
        process.child.kill()  # What it started itself.
    remove_endpoint(process.folder)
    _LOG.info("%s: the serving process %s", process.lease.id, exit_message(process.child.returncode))
    with contextlib.suppress(psycopg.OperationalError, LeaseLost):  # Then the lease runs out by itself.
        async with database.transaction() as connection:
            await ServingRepository(connection).give_back(process.lease)
