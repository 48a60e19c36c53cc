"""A server of our own, as a process that never outlives us."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rft.core.errors import RftError
from rft.vllm_server.guardian import GRACE_S

_MOST_STARTS, _LATELY_S = 3, 1800.0


class ServerKeepsDying(RftError):
    """It was started again and again in vain; the message has the end of its log."""


class ServerProcess:
    """One server, started by the first `ensure_running`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._command, self._environment, self._log = tuple(command), dict(environment), log
        self._child: subprocess.Popen[bytes] | None = None
        self._starts_s: list[float] = []
        """When it was started lately."""
        self._is_stopped = False

    @property
    def pid(self) -> int | None:
        """The number of its process group; None before its start."""
        return None if self._child is None else self._child.pid

    def ensure_running(self) -> None:
        """Start it where it does not run. Raises ServerKeepsDying, OSError."""
        if self._is_stopped or (self._child is not None and self._child.poll() is None):
            return
        now_s = time.monotonic()
        self._starts_s = [at_s for at_s in self._starts_s if now_s - at_s < _LATELY_S]
        if len(self._starts_s) >= _MOST_STARTS:
            raise ServerKeepsDying(
                f"the vLLM server ended {_MOST_STARTS} times. The end of its log:\n{self._log_end()}"
            )
        self._starts_s.append(now_s)
        self._close_input()
        with self._log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "rft.vllm_server.guardian", *self._command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End it and wait until it has ended; idempotent."""
        self._is_stopped = True
        self._close_input()
        if self._child is not None:
            self._child.wait(GRACE_S + 30)

    def _close_input(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def _log_end(self, lines: int = 15) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 16_384))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
