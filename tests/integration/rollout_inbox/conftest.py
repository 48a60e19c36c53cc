"""An inbox over HTTP, in a real database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.rollout_inbox import patience, repository
from rft.platform.rollout_inbox.repository import open_inbox
from rft.platform.store.database import Database
from rft.rollouts.shards.http_inbox import RunAddress, open_inbox_http
from tests.integration.rollout_inbox.stage import Stage
from tests.integration.worker.workbench import Workbench
from tests.shared.running_api import ReceivedMessages, Served


@pytest.fixture
async def stage(migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Everything open; who is silent is lost at once."""
    monkeypatch.setattr(patience, "_PATIENCE_S", -1e9)
    # Tests end leases in the database; a busy machine ends none.
    monkeypatch.setattr(repository, "SHARD_LEASE_S", 600.0)
    async with Database(migrated_url) as database, open_inbox_http() as http:
        bench = Workbench(tmp_path, migrated_url, database)
        job_id = await bench.queued_job()
        async with database.transaction() as connection:
            lease = await take(connection, job_id, owner="host/1/x", ttl_s=600.0, slots=1)
            assert isinstance(lease, Lease)
            token = await open_inbox(connection, lease)
        with Served(bench.settings, ReceivedMessages()) as port:
            yield Stage(database, http, lease, token, RunAddress(f"http://127.0.0.1:{port}", job_id, str(token)))
