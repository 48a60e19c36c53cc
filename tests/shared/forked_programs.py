"""Programs in forks of a process that has imported what they import, which takes longer than what most tests run.

A program has its arguments, environment, folder, output and status as in an interpreter of its own, and its process id
is the one that signals go to. What it registers with `atexit` is not run.
"""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.shared.forked import Forked


class ForkedProgram(Forked):
    """One of them. The first argument is a script's path, or a module's name as behind `python -m`."""

    def __init__(self, *arguments: str, environment: Mapping[str, str], are_errors_apart: bool = False) -> None:
        self._folder = TemporaryDirectory()
        self._output = Path(self._folder.name, "output")
        self._errors = self._output.with_name("errors") if are_errors_apart else self._output
        for file in (self._output, self._errors):
            file.touch()
        super().__init__(_become, arguments, dict(environment), os.getcwd(), self._output, self._errors)

    def outcome(self, timeout: float) -> tuple[int, bytes, bytes]:
        """Its status, and all that it wrote to its output and to its errors. Raises subprocess.TimeoutExpired.

        It is killed when it takes longer.
        """
        with self._folder:
            try:
                status = self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.send_signal(signal.SIGKILL)
                raise
            return status, self._output.read_bytes(), self._errors.read_bytes()


def _become(arguments: tuple[str, ...], environment: dict[str, str], folder: str, output: Path, errors: Path) -> None:
    """In the fork."""
    for path, stream in ((output, 1), (errors, 2)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = list(arguments)
    if arguments[0].endswith(".py"):
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
