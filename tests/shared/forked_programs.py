"""Programs in forks of a process that has imported what they import, which takes longer than what most tests run.

A program runs as in an interpreter of its own: it has its arguments, environment, folder, output and status, and its
process id is the one that signals go to.
"""

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]


class ForkedProgram:
    """One of them, from its start on."""

    def __init__(self, told: IO[str], output: IO[bytes], errors: IO[bytes]) -> None:
        self._told, self._output, self._errors = told, output, errors
        self.pid = int(told.readline())
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float) -> int:
        """The same, once it has ended. Raises subprocess.TimeoutExpired."""
        if self._status is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("fork", timeout)
            self._status = int(self._told.readline())
            self._told.close()
        return self._status

    def kill(self) -> None:
        """Nothing when it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # Its end is not told yet.
                os.kill(self.pid, signal.SIGKILL)

    def outcome(self, timeout: float) -> tuple[int, bytes, bytes]:
        """Its status, and all that it wrote to its output and to its errors. It is killed when it takes longer."""
        try:
            status = self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait(timeout)
            raise
        shown = list[bytes]()
        for file in (self._output, self._errors):
            file.seek(0)
            shown.append(file.read())
            file.close()
        return status, shown[0], shown[1]


class ForkingServer:
    """The process of which they are forked. It ends with this one."""

    def __init__(self, *modules: str) -> None:
        self._asking, asked = socket.socketpair()
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "tests.shared.forking_server", str(asked.fileno()), *modules]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[asked.fileno()])
        asked.close()
        atexit.register(self._stop)

    def start(self, *arguments: str, environment: Mapping[str, str], are_errors_apart: bool = False) -> ForkedProgram:
        """The first argument is a script's path, or a module's name as behind `python -m`."""
        wanted = {"arguments": arguments, "environment": dict(environment), "folder": os.getcwd()}
        output = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when it has been read
        errors = tempfile.TemporaryFile() if are_errors_apart else os.fdopen(os.dup(output.fileno()), "rb")  # noqa: SIM115
        reading, telling = os.pipe()
        with tempfile.TemporaryFile("w+") as request, self._lock:
            json.dump(wanted, request)
            request.flush()
            descriptors = [request.fileno(), output.fileno(), errors.fileno(), telling]
            socket.send_fds(self._asking, [b"1"], descriptors)
            os.close(telling)
            return ForkedProgram(os.fdopen(reading, "r"), output, errors)

    def _stop(self) -> None:
        self._asking.close()
        self._process.wait()


@functools.cache
def forking_server(*modules: str) -> ForkingServer:
    """The one that has imported these."""
    return ForkingServer(*modules)
