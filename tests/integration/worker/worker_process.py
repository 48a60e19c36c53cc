"""A real Celery worker in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rft.platform.worker.tasks import worker_arguments
from tests.integration.worker.workbench import Workbench


class WorkerProcess:
    """Started as `rft up` starts it, unless `program` stands for Celery's own."""

    def __init__(
        self, bench: Workbench, broker_url: str, log: Path, *, program: Sequence[str] = ("-m", "celery")
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, *program, *worker_arguments(bench.settings)],
                env={**os.environ, **_environment(bench), "BROKER_URL": broker_url},
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        """Whether it takes messages; fails the test when it has died."""
        text = self._log.read_text()
        assert self.process.poll() is None, text
        return " ready." in text

    def kill(self) -> None:
        """As the machine's out-of-memory killer does: the parent only."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, timeout_s: float) -> int:
        """Ask it to end, and wait."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def end(self) -> None:
        """Whatever state it is in, it is gone now."""
        if self.process.poll() is None:
            self.kill()


def _environment(bench: Workbench) -> dict[str, str]:
    return {
        name if name.isupper() else f"RFT_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in bench.environment.items()
    }
