"""The two programs of ours that the supervisor keeps alive: API and worker."""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.home import Home
from rft.platform.embedded.process import descendants, end_all, log_end, stop

_API_PATIENCE_S = 60.0
_HEALTH_POLL_S = 0.05
_BACKLOG = 512
EMBEDDED_DEFAULTS = {
    "RFT_LEASE_TTL_S": "8",
    "RFT_HEARTBEAT_S": "2",
    "RFT_RECONCILE_S": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
    "PYTHONUNBUFFERED": "1",
}
"""One machine notices a dead worker sooner than a cluster; the person's own environment wins over these."""


def child_environment(overrides: Mapping[str, str]) -> dict[str, str]:
    """Ours, the embedded form's defaults below it, `overrides` above it."""
    return {**EMBEDDED_DEFAULTS, **os.environ, **overrides}


def how_to_listen(problem: OSError) -> str:
    """What to do about an address that cannot be listened on."""
    if problem.errno in (errno.EADDRINUSE, errno.EACCES):
        return "choose another port with --port, or --port 0 for a free one"
    return "choose an address of this machine with --host"


def authority(host: str, port: int) -> str:
    """Both as URLs and `Host` headers have them: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises StartFailed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as problem:
        listener.close()
        what_to_do = how_to_listen(problem)
        raise StartFailed(f"cannot listen on {authority(host, port)}: {problem.strerror}; {what_to_do}") from problem
    listener.setblocking(False)
    return listener


@dataclass(slots=True)
class Api:
    """API and dashboard on one port."""

    home: Home
    listener: socket.socket
    env: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    name: str = field(default="api", init=False)

    async def start(self) -> None:
        """Start and wait until `/health` answers; raises StartFailed."""
        fd = self.listener.fileno()
        process = self.process = self.home.spawn(
            self.name,
            [sys.executable, "-m", "rft.platform.embedded.api_process", str(fd)],
            env=child_environment(self.env),
            death_signal=signal.SIGKILL,
            pass_fds=[fd],
        )
        deadline = time.monotonic() + _API_PATIENCE_S
        host, port = reachable_address(self.listener)
        while not await is_healthy(host, port):
            if process.poll() is not None or time.monotonic() > deadline:
                await self.stop()
                raise StartFailed(f"the API does not start\n{log_end(self.home.log(self.name))}")
            await asyncio.sleep(_HEALTH_POLL_S)

    async def stop(self) -> None:
        """Finish the requests in hand."""
        if self.process is not None:
            await stop(self.process, ((signal.SIGTERM, 8.0),))


@dataclass(slots=True)
class Worker:
    """Celery: validates files, launches trainers."""

    home: Home
    env: Mapping[str, str]
    trainer_grace_s: float
    process: subprocess.Popen[bytes] | None = None
    name: str = field(default="worker", init=False)

    async def start(self) -> None:
        """Start; jobs wait until it listens."""
        self.process = self.home.spawn(
            self.name,
            [sys.executable, "-m", "rft.platform.embedded.worker_process"],
            env=child_environment(self.env),
            death_signal=signal.SIGKILL,
        )

    async def stop(self) -> None:
        """Soft first: a trainer leaves its step and exits; after a time limit nothing of it is left."""
        if self.process is None:
            return
        family = descendants(self.process.pid)
        await stop(self.process, ((signal.SIGTERM, self.trainer_grace_s + 15.0),))
        await end_all(family, signal.SIGTERM, 2.0)


def reachable_address(listener: socket.socket) -> tuple[str, int]:
    """Host and port at which this machine reaches the listener."""
    address: tuple[str, int] = listener.getsockname()[:2]
    host, port = address
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port


async def is_healthy(host: str, port: int) -> bool:
    """Whether `GET /health` answers 200 within two seconds."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                head = f"GET /health HTTP/1.1\r\nHost: {authority(host, port)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode())
                return (await reader.readline()).split()[1:2] == [b"200"]
            finally:
                writer.close()
    return False
