"""Replies that go on for long end soon after the key or the session of their caller."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import psycopg
import psycopg_pool

from rft.platform.api.authentication import Credential, session_ended, unknown_key
from rft.platform.api.key_repository import living_keys
from rft.platform.api.session_repository import living_sessions
from rft.platform.store.database import Database

T = TypeVar("T")

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


@dataclass(slots=True)
class _Wait:
    """The task that waits for what a reply is made of, if one does."""

    task: "asyncio.Task[object] | None" = None
    is_over: bool = False

    def give_up(self) -> None:
        if self.task is not None:
            self.is_over = True
            self.task.cancel()


class AdmissionMonitor:
    """Asks for all callers at once, and only while there are any. A reply that is over sooner costs no task."""

    def __init__(self, database: Database, *, check_s: float = CHECK_S) -> None:
        self._database, self._check_s = database, check_s
        self._admissions: set[Admission] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        """The check that is under way."""

    @contextmanager
    def admitted(self, credential: Credential, wake: Callable[[], None]) -> Generator[Admission]:
        """For as long as the reply goes on."""
        admission = Admission(credential, wake)
        self._admissions.add(admission)
        if self._timer is None and self._task is None:
            self._wait()
        try:
            yield admission
        finally:
            self._admissions.discard(admission)

    async def while_admitted(self, credential: Credential, events: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """The same events. Raises Unauthorized soon after the credential has ended, once `events` has."""
        wait = _Wait()
        async with aclosing(events):
            with self.admitted(credential, wait.give_up) as admission:
                while not admission.has_ended:
                    # Not always the same one: who reads may ask for each event in a task of its own.
                    wait.task = task = asyncio.current_task()
                    assert task is not None
                    try:
                        event = await anext(events, None)
                    except asyncio.CancelledError:
                        # Cancelled by somebody else, too: that counts more, as with `asyncio.timeout`.
                        if not wait.is_over or task.cancelling() > 1:
                            raise
                        break
                    finally:
                        wait.task = None
                        if wait.is_over:
                            task.uncancel()
                    if wait.is_over:  # Its cancellation was lost.
                        break
                    if event is None:
                        return
                    yield event
        raise unknown_key() if credential.session_sha256 is None else session_ended()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._check_s, self._begin_check)

    def _begin_check(self) -> None:
        self._timer = None
        if self._admissions:
            self._task = asyncio.create_task(self._check_and_wait())

    async def _check_and_wait(self) -> None:
        try:
            await self._check()
        except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
            # While the database is away there is no news to tell anybody either.
            _LOG.warning("who may go on watching is not known right now: %s", error)
        except Exception:
            # The next check may come out otherwise; without one, replies would go on without their callers' keys.
            _LOG.exception("who may go on watching could not be checked")
        finally:
            self._task = None
        if self._admissions:
            self._wait()

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
                self._admissions.discard(admission)
                admission.wake()
