"""A RabbitMQ of a test's own, on loopback, where the machine has its programs."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

from tests.shared.free_port import free_port
from tests.shared.waiting import until

_INSTALLED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Where Debian has the program itself: what it has on the path becomes another user first."""
_STOP_S = 60.0


def rabbitmq_program() -> str | None:
    """None where the machine has none."""
    return str(_INSTALLED) if _INSTALLED.exists() else shutil.which("rabbitmq-server")


class RabbitMq:
    """One node with a port mapper of its own. It may be started again, with what it kept."""

    def __init__(self, folder: Path, program: str) -> None:
        self._folder, self._program = folder, program
        self._port, self._node_port, self._mapper_port = free_port(), free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    def url(self) -> str:
        """For Celery."""
        return f"amqp://guest:guest@127.0.0.1:{self._port}//"

    async def start(self) -> None:
        """Once it takes connections. One that fails leaves nothing running."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        log = self._folder / "rabbitmq.log"
        log.unlink(missing_ok=True)
        self._spawn(log, ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"])
        node = self._spawn(log, [self._program])

        def is_started() -> bool:
            assert node.poll() is None, log.read_text()
            return "Server startup complete" in log.read_text()

        await until(is_started, "RabbitMQ")

    async def stop(self) -> None:
        """The node first, orderly; whatever does not end is killed."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, _STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self, log: Path, command: list[str]) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._processes.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        folder = str(self._folder)
        return {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": f"rft-{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
        }
