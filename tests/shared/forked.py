"""Processes forked from one that has imported the trainer and the SDK, which takes longer than what most of them do."""

import multiprocessing
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

forking = multiprocessing.get_context("forkserver")
forking.set_forkserver_preload(["openai", "tests.e2e.trainer.imported_trainer"])


class Forked:
    """One of them, as a `subprocess.Popen` is used."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self._process, self._reading = forking.Process(target=target, args=arguments), threading.Lock()
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        with self._reading:  # Of two threads that read it at once, one gets 255.
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended. Raises subprocess.TimeoutExpired."""
        wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("fork", timeout or 0.0)
        return status

    def send_signal(self, sig: int, /) -> None:
        """Nothing when it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # It is waited for elsewhere, before we hear of it.
                os.kill(self.pid, sig)
