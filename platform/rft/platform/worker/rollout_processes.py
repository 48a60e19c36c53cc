"""`rft worker --queue rollouts`: some processes that run rollouts, started again when one dies."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

from rft.platform.child_process import child_environment, die_with_parent, exit_message
from rft.platform.settings import Settings

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_PAUSE_S = 1.0
"""Before a process that died is started again."""
_GRACE_S = 30.0


@dataclass(slots=True)
class RolloutProcesses:
    """Runs until SIGTERM or SIGINT."""

    settings: Settings
    broker_url: str
    processes: int
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    _is_stopping: bool = False

    def run(self) -> None:
        """Start them and keep them alive; stop all when told to."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self._children = [self._start() for _ in range(self.processes)]
        while not self._is_stopping:
            time.sleep(_POLL_S)
            for place, child in enumerate(self._children):
                if child.poll() is not None and not self._is_stopping:
                    _LOG.warning("a rollout worker %s; starting it again", exit_message(child.returncode))
                    time.sleep(_PAUSE_S)
                    self._children[place] = self._start()
        self._end()

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _start(self) -> subprocess.Popen[bytes]:
        settings = self.settings
        config = {
            "broker_url": self.broker_url,
            "gateway_token": settings.gateway_token,
            "vllm_api_key": settings.vllm_api_key,
            "threads": settings.rollout_worker_shards,
            "log_level": settings.log_level,
        }
        child = subprocess.Popen(
            [sys.executable, "-m", "rft.trainer.rollout_worker"],
            stdin=subprocess.PIPE,
            env=child_environment(os.environ),
            start_new_session=True,
            preexec_fn=die_with_parent(os.getpid(), signal.SIGTERM),
        )
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(config).encode())
            child.stdin.close()
        except BrokenPipeError:
            pass  # It died at once: it is looked at like any other that died.
        return child

    def _end(self) -> None:
        for child in self._children:
            child.terminate()
        until_s = time.monotonic() + _GRACE_S
        for child in self._children:
            try:
                child.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
