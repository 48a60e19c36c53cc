"""`rft up`: Postgres, broker, API and worker as our children; whatever dies is started again."""

import asyncio
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rft.platform.dashboard.links import PRINTED_LINK_MAX_AGE_S, sign_in_url
from rft.platform.embedded.connection import Connection, connection_file, publish, read_connection, withdraw
from rft.platform.embedded.faults import AlreadyRunning, StartFailed
from rft.platform.embedded.given_queue import queue_problem
from rft.platform.embedded.home import Home, write_private
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.embedded.process import wait_until
from rft.platform.embedded.programs import Api, Worker, authority, listen, reachable_address
from rft.platform.embedded.valkey import EmbeddedValkey
from rft.platform.settings import Settings
from rft.scratch.disk import has_nothing_left

Say = Callable[[str], None]
_STOP_ORDER = ("worker", "api", "valkey", "postgres")
_WATCH_POLL_S = 0.1
_LOGS_POLL_S = 60.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 15.0
_DATABASE_POLL_S = 1.0
_KEY_LOST = (
    "secret.key is missing, and the database holds secrets that were sealed with it: a new one is made.\n"
    "Add the lines of the earlier file to it once that is found; jobs that wait for their secrets can go on then"
)
_STABLE_S = 30.0
"""A part that lived this long starts again without a pause."""


class Part(Protocol):
    """One process the platform consists of."""

    @property
    def name(self) -> str:
        """For messages and its log file."""
        ...

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """None before the first start."""
        ...

    async def start(self) -> None:
        """Start and wait until it serves; raises StartFailed."""
        ...

    async def stop(self) -> None:
        """End it in its own best way; harmless when it is not running."""
        ...


def run_platform(settings: Settings, say: Say, *, tells_credentials: bool = True) -> None:
    """Run until SIGINT or SIGTERM; raises StartFailed (AlreadyRunning among them).

    `tells_credentials`: whoever reads what is said may have the API key and sign in.
    """
    home = Home(settings.home)
    try:
        with home.hold():
            asyncio.run(Supervisor(settings, home, say, tells_credentials=tells_credentials).run())
    except AlreadyRunning as problem:
        found = read_connection(home.path)
        where = (
            f" at {found.base_url} (pid {found.pid})"
            if found
            else "; it is still starting, or its connection.json is gone: stop it and start it again"
        )
        raise AlreadyRunning(f"the platform of {home.path} is already running{where}") from problem


class Supervisor:
    """Everything of one home. The caller holds its lock."""

    def __init__(self, settings: Settings, home: Home, say: Say, *, tells_credentials: bool = True) -> None:
        self._settings = settings
        self._home = home
        self._say = say
        self._tells_credentials = tells_credentials
        self._parts: list[Part] = []
        self._is_stopping = False

    async def run(self) -> None:
        """Start all, keep all alive, stop all when told to."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        is_deaf_to_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # nohup
        for sig in (signal.SIGINT, signal.SIGTERM, *(() if is_deaf_to_hangup else (signal.SIGHUP,))):
            loop.add_signal_handler(sig, self._told_to_stop, task)
        try:
            withdraw(self._home.path)
            await self._home.end_children()
            await self._serve()
        except asyncio.CancelledError:
            self._say("stopping")
        finally:
            self._is_stopping = True
            await self.stop_all()

    def _told_to_stop(self, task: "asyncio.Task[None]") -> None:
        """The first signal stops in order, a second one kills what is slow."""
        if not self._is_stopping:
            self._is_stopping = True
            task.cancel()
            return
        for part in self._parts:
            if isinstance(part, Api | Worker) and part.process is not None:
                part.process.kill()

    async def _serve(self) -> None:
        settings = self._settings
        with closing(listen(settings.host, settings.port)) as listener:
            database_url, broker_url = await self._start_servers()
            prepared = await self._prepare_database_once_up(database_url)
            if prepared.is_key_lost:
                self._say(_KEY_LOST)
            host, port = reachable_address(listener)
            env = {
                "RFT_HOME": str(self._home.path),
                "DATABASE_URL": database_url,
                "BROKER_URL": broker_url,
                "RFT_HOST": settings.host,
                "RFT_PORT": str(port),
            }
            await self._start(
                Worker(self._home, env, settings.trainer_grace_s),
                Api(self._home, listener, env),
            )
            root = f"http://{authority(host, port)}"
            self._announce(root, prepared.api_key, sign_in_url(root, prepared.sign_in_token))
            await asyncio.gather(*map(self.keep_alive, self._parts), self._keep_logs_small())

    async def _start_servers(self) -> tuple[str, str]:
        """URLs of database and broker, given or embedded."""
        given_database, given_broker = self._settings.database_url, self._settings.broker_url
        postgres, valkey = EmbeddedPostgres(self._home), EmbeddedValkey(self._home)
        await self._start(*([] if given_database else [postgres]), *([] if given_broker else [valkey]))
        if given_broker and (problem := await asyncio.to_thread(queue_problem, given_broker)):
            self._say(f"the server of BROKER_URL cannot be reached: {problem}\norders wait until it can be")
        return given_database or postgres.url(), given_broker or valkey.url()

    async def _start(self, *parts: Part) -> None:
        """Start side by side; the first failure is raised once all have settled."""
        self._parts.extend(parts)
        for outcome in await asyncio.gather(*(part.start() for part in parts), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _prepare_database_once_up(self, database_url: str) -> "PreparedDatabase":
        """A server of the operator's own that is not up yet is waited for. Raises StartFailed."""
        from psycopg import OperationalError  # late: as there

        if self._settings.database_url is None:
            return await prepare_database(database_url, self._home.path)
        has_answered = is_told = False
        while True:
            try:
                return await prepare_database(database_url, self._home.path)
            except StartFailed as problem:
                if has_answered or not isinstance(problem.__cause__, OperationalError):
                    raise
                # Once more where it answers by now: it may have come up only after the failure.
                has_answered = await asyncio.to_thread(_answers, database_url)
                if not has_answered and not is_told:
                    self._say(f"{' '.join(str(problem).split())}\nwaiting until it can be; Ctrl-C ends that")
                    is_told = True
            if not has_answered:
                await asyncio.sleep(_DATABASE_POLL_S)

    def _announce(self, root: str, api_key: str, dashboard_url: str) -> None:
        publish(
            self._home.path,
            Connection(base_url=f"{root}/v1", api_key=api_key, dashboard_url=dashboard_url, pid=os.getpid()),
        )
        where = f"home       {self._home.path}\nAPI        {root}/v1\n"
        if not self._tells_credentials:
            key = f"API key    in {connection_file(self._home.path)}"
            self._say(f"{where}{key}\ndashboard  {root}/ (`rft dashboard` prints a link that signs in)")
            return
        self._say(
            f"{where}API key    {api_key}\ndashboard  {dashboard_url}\n"
            "           signs one browser in, once; `rft dashboard` prints another link\nCtrl-C stops everything."
        )

    async def keep_alive(self, part: Part) -> None:
        """Start the part again whenever it has died, sooner the longer it lived."""
        pause_s = _FIRST_PAUSE_S
        while True:
            born = time.monotonic()
            await wait_until(lambda: part.process is None or part.process.poll() is not None, math.inf, _WATCH_POLL_S)
            lived_s = time.monotonic() - born
            pause_s = _FIRST_PAUSE_S if lived_s > _STABLE_S else pause_s
            self._say(f"{part.name} {_exit_message(part.process)}; starting it again")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                self._tell_full_disk()
                await part.start()
            except (StartFailed, OSError) as problem:
                self._say(f"{part.name}: {problem}")

    async def _keep_logs_small(self) -> None:
        while True:
            await asyncio.sleep(_LOGS_POLL_S)
            await asyncio.to_thread(self._home.cut_logs)

    def _tell_full_disk(self) -> None:
        """What ends a server and keeps it from starting, in words. Raises OSError."""
        for folder in self._home.written_folders():
            if has_nothing_left(folder):
                self._say(f"the disk that holds {folder} is full; all goes on by itself once there is room")

    async def stop_all(self) -> None:
        """Worker first, so that its trainer ends while all it needs is there; then API, broker, database."""
        for part in sorted(self._parts, key=lambda part: _STOP_ORDER.index(part.name)):
            await part.stop()
        try:
            await self._home.leave()
        except OSError as problem:
            # All have ended; that the home still names them does not harm, the next start finds them gone.
            self._say(f"the home {self._home.path} could not be written: {problem.strerror}")
        withdraw(self._home.path)


def key_file(home: Path) -> Path:
    """Where the key of this host's own commands is kept."""
    return home / "secrets" / "api_key"


def own_key(home: Path) -> str:
    """That key; empty where there is none, or it is not ours to read."""
    try:
        return key_file(home).read_text()
    except (FileNotFoundError, PermissionError):
        return ""


@dataclass(frozen=True, slots=True)
class PreparedDatabase:
    """A database that can be served from."""

    api_key: str
    """Of the last run where it is still good, else a new one."""
    sign_in_token: str
    """Made with it."""
    is_key_lost: bool
    """The database holds secrets, and there is no key to open them with."""


async def prepare_database(database_url: str, home: Path) -> PreparedDatabase:
    """Migrate, and let the host's own commands in. Raises StartFailed."""
    from psycopg import AsyncConnection, Error  # late: loaded only once a server is there to talk to

    from rft.platform.api.key_repository import create_key, verify_key
    from rft.platform.api.session_repository import create_sign_in_token
    from rft.platform.signing.repository import SigningSecretRepository
    from rft.platform.store.database import with_timeouts
    from rft.platform.store.migrations import MigrationRefused, migrate
    from rft.platform.store.secret_box import KEY_FILE

    try:
        await migrate(database_url)
        async with await AsyncConnection.connect(with_timeouts(database_url)) as connection:
            key = own_key(home)
            key_id = await verify_key(connection, key)
            if key_id is None:
                key = await create_key(connection, "rft up")
                write_private(key_file(home), key, is_durable=True)
                key_id = await verify_key(connection, key)
            assert key_id is not None, "it was made in this transaction"
            token = await create_sign_in_token(connection, key_id, max_age_s=PRINTED_LINK_MAX_AGE_S)
            has_secrets = not await SigningSecretRepository(connection).is_empty()
            return PreparedDatabase(key, token, is_key_lost=has_secrets and not (home / KEY_FILE).exists())
    except MigrationRefused as problem:
        raise StartFailed(f"the database was not changed: {problem}") from problem
    except Error as problem:
        raise StartFailed(f"the database cannot be used: {problem}") from problem


def _answers(database_url: str) -> bool:
    """Whether there is a server that takes connections, whatever it thinks of ours. Blocks for seconds."""
    from psycopg.pq import PGconn, Ping

    from rft.platform.store.database import with_timeouts

    return PGconn.ping(with_timeouts(database_url).encode()) not in (Ping.REJECT, Ping.NO_RESPONSE)


def _exit_message(process: subprocess.Popen[bytes] | None) -> str:
    code = process.returncode if process is not None else None
    if code is None:
        return "did not start"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
