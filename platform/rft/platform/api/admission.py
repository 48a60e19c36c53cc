"""Replies that go on for long end soon after the key or the session of their caller."""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import psycopg_pool

from rft.platform.api.authentication import Credential
from rft.platform.api.key_repository import living_keys
from rft.platform.api.session_repository import living_sessions
from rft.platform.store.database import Database

_LOG = logging.getLogger(__name__)
CHECK_S = 2.0
"""How long a reply may outlive its caller's credential."""


@dataclass(eq=False, slots=True)
class Admission:
    """One reply's right to go on."""

    credential: Credential
    wake: Callable[[], None]
    """Called when the right has ended: makes the reply look at it."""
    has_ended: bool = False


class AdmissionMonitor:
    """Asks for all callers at once, and only while there are any."""

    def __init__(self, database: Database, *, check_s: float = CHECK_S) -> None:
        self._database, self._check_s = database, check_s
        self._admissions: set[Admission] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def admitted(self, credential: Credential, wake: Callable[[], None]) -> Generator[Admission]:
        """For as long as the reply goes on."""
        admission = Admission(credential, wake)
        self._admissions.add(admission)
        if self._task is None:
            self._task = asyncio.create_task(self._check_forever())
        try:
            yield admission
        finally:
            self._leave(admission)

    def _leave(self, admission: Admission) -> None:
        self._admissions.discard(admission)
        if not self._admissions and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _check_forever(self) -> None:
        while True:
            await asyncio.sleep(self._check_s)
            try:
                await self._check()
            except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
                # While the database is away there is no news to tell anybody either.
                _LOG.warning("who may go on watching is not known right now: %s", error)

    async def _check(self) -> None:
        admissions = list(self._admissions)
        key_ids = {admission.credential.api_key_id for admission in admissions}
        sessions = {sha256 for admission in admissions if (sha256 := admission.credential.session_sha256)}
        async with self._database.connection() as connection:
            keys = await living_keys(connection, key_ids)
            living = await living_sessions(connection, sessions) if sessions else set[bytes]()
        for admission in admissions:
            sha256 = admission.credential.session_sha256
            if admission.credential.api_key_id not in keys or (sha256 is not None and sha256 not in living):
                admission.has_ended = True
                admission.wake()
