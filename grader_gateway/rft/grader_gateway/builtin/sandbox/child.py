"""Our end of a process of the sandbox, and its lines of JSON. Blocking: used from a thread, killed from any."""

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from typing import cast

from pydantic import JsonValue

from rft.scratch.folder import ScratchFolder, sweep

_PREFIX = "rft-grader-"
_REPLY_BYTES = 64 * 1024
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All it gets: sets in the same order everywhere, and no threads in number libraries."""


@cache
def _sweep_once() -> None:
    """Prefix of the temporary folders that killed processes of ours leave behind."""
    sweep(_PREFIX)


class SandboxLost(Exception):
    """The process is gone or silent."""


class ChildProcess:
    """One process that runs a module of ours and answers every line with a line."""

    def __init__(self, module: str) -> None:
        _sweep_once()
        self._home = ScratchFolder(_PREFIX)
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-P", "-B", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd=self._home.path,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        os.set_blocking(self._to.fileno(), False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """Kill it; a thread that waits for it gets SandboxLost."""
        self._process.kill()

    def close(self) -> None:
        """End it and free everything. No thread may be waiting for it."""
        self.kill()
        self._process.wait()
        self._to.close()
        self._from.close()
        self._home.remove()

    def ask(self, message: dict[str, JsonValue], within_s: float) -> dict[str, JsonValue]:
        """What it says to this. Raises SandboxLost."""
        deadline_s = time.monotonic() + within_s
        self._write(json.dumps(message).encode() + b"\n", deadline_s)
        line = self._read_line(deadline_s)
        with suppress(ValueError):
            reply = json.loads(line)
            if isinstance(reply, dict):
                return cast("dict[str, JsonValue]", reply)
        raise SandboxLost("it answered nonsense")

    def _write(self, data: bytes, deadline_s: float) -> None:
        left = memoryview(data)
        while left:
            self._wait(self._to.fileno(), select.POLLOUT, deadline_s)
            try:
                left = left[os.write(self._to.fileno(), left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise SandboxLost("its process has ended") from None

    def _read_line(self, deadline_s: float) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            self._wait(self._from.fileno(), select.POLLIN, deadline_s)
            chunk = os.read(self._from.fileno(), _REPLY_BYTES)
            if not chunk or len(line) > _REPLY_BYTES:
                raise SandboxLost("its process has ended")
            line += chunk
        return line

    def _wait(self, descriptor: int, event: int, deadline_s: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
            raise SandboxLost("it does not answer")
