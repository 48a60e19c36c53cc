"""The inbox of one launch, for the rollouts that workers hand over to its trainer."""

import logging
from dataclasses import dataclass

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.spec import RunSecrets
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import lock_row
from rft.platform.rollout_inbox.repository import close_inbox, open_inbox
from rft.platform.rollout_inbox.run_token import RunToken
from rft.platform.settings import Settings

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class LaunchInbox:
    """Opened before the trainer is started, closed when it is gone; nothing where trainers run rollouts themselves."""

    settings: Settings
    beat: Heartbeat
    _token: RunToken | None = None

    async def open(self, secrets: RunSecrets) -> RunSecrets:
        """What the trainer is given. Raises LeaseLost."""
        if self.settings.rollout_workers == "none":
            return secrets
        self._token = await self.beat.write(self._open)
        return secrets.model_copy(
            update={"broker_url": self.settings.broker_url, "inbox_token": str(self._token)},
        )

    async def close(self) -> None:
        """Workers stop at once. Where the database is away now, the next launch or the lost lease stops them."""
        if self._token is None:
            return
        try:
            async with self.beat.database.transaction() as connection:
                await close_inbox(connection, self.beat.lease.id, self._token)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            _LOG.warning("%s: its inbox was not closed: %s", self.beat.lease.id, error)

    async def _open(self, connection: AsyncConnection[TupleRow]) -> RunToken:
        await lock_row(connection, self.beat.lease)
        return await open_inbox(connection, self.beat.lease)
