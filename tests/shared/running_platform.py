"""`rft up` as a person starts it: a process of its own, watched from outside."""

import json
import os
import pwd
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from openai import OpenAI

from rft.platform.embedded.connection import Connection, read_connection
from rft.platform.embedded.home import State
from rft.platform.embedded.process import ProcessId, descendants, identify

UP = (sys.executable, "-m", "rft.platform.cli", "up")
PATIENCE_S = 400.0
_OURS = ("DATABASE_URL", "BROKER_URL", "RFT_", "PG")


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A session without servers on PATH and without settings of ours but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, "PATH": "/usr/bin:/bin", "RFT_HOME": str(home), "RFT_PORT": "0", **(extra or {})}


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for something to become true; a busy machine may take long."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"still not after {patience_s} s: {what}"
        time.sleep(0.05)


@dataclass(slots=True)
class RunningPlatform:
    """One `rft up`."""

    home: Path
    process: subprocess.Popen[str]
    boot_s: float = 0.0
    _born: float = field(default_factory=time.monotonic)
    _clients: list[OpenAI] = field(default_factory=list[OpenAI])

    @classmethod
    def start(cls, home: Path, extra: Mapping[str, str] | None = None, before: Sequence[str] = ()) -> "RunningPlatform":
        """Start and wait until it serves; `before` is put in front of the command."""
        return cls.begin(home, extra, before).served()

    @classmethod
    def begin(cls, home: Path, extra: Mapping[str, str] | None = None, before: Sequence[str] = ()) -> "RunningPlatform":
        """Start it, and wait for nothing."""
        with (home.parent / f"{home.name}.out").open("w") as out:
            process = subprocess.Popen(
                [*before, *UP], env=environment(home, extra), stdout=out, stderr=out, text=True, cwd="/"
            )
        return cls(home, process)

    def served(self) -> "RunningPlatform":
        """Once it serves."""
        until(lambda: _serves(self.home, self.process.pid) or self.process.poll() is not None, "serving")
        assert self.process.poll() is None, self.said()
        self.boot_s = time.monotonic() - self._born
        return self

    def said(self) -> str:
        """What it printed."""
        return (self.home.parent / f"{self.home.name}.out").read_text()

    def connection(self) -> Connection:
        """How to reach it."""
        found = read_connection(self.home)
        assert found is not None
        return found

    def client(self) -> OpenAI:
        """The official SDK on it; closed with the platform, since what is left open is some later test's failure."""
        found = self.connection()
        made = OpenAI(base_url=found.base_url, api_key=found.api_key, max_retries=0, timeout=PATIENCE_S)
        self._clients.append(made)
        return made

    def is_healthy(self) -> bool:
        """Whether API and database answer."""
        url = self.connection().base_url.removesuffix("v1") + "health"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
                return json.load(reply) == {"status": "ok"}
        except OSError:
            return False

    def state(self) -> State:
        """What it remembers of itself."""
        return State.model_validate_json((self.home / "state.json").read_bytes())

    def child(self, name: str) -> ProcessId:
        """One of its children."""
        return self.state().children[name]

    def family(self) -> list[ProcessId]:
        """It and everything below it."""
        own = identify(self.process.pid)
        return [*([own] if own else []), *descendants(self.process.pid)]

    def kill_child(self, name: str) -> ProcessId:
        """kill -9, then wait for its successor."""
        old = self.child(name)
        os.kill(old.pid, signal.SIGKILL)
        until(lambda: self.child(name) != old, f"another {name}")
        return self.child(name)

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """For teardown, whatever state it is in."""
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.interrupt()


def _serves(home: Path, pid: int) -> bool:
    """Whether this very process has announced itself: a killed one leaves its announcement behind."""
    found = read_connection(home)
    return found is not None and found.pid == pid


def up_fails(home: Path, extra: dict[str, str] | None = None) -> str:
    """What an `up` that cannot start says."""
    done = subprocess.run(UP, env=environment(home, extra), capture_output=True, text=True, timeout=PATIENCE_S, cwd="/")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def alive(processes: Sequence[ProcessId]) -> list[str]:
    """Command lines of those that still live."""
    found: list[str] = []
    for process in processes:
        with suppress(FileNotFoundError, ProcessLookupError):  # between two looks at it
            if identify(process.pid) == process:
                found.append(Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " "))
    return found


def as_ordinary_user() -> list[str]:
    """What to put before a command to run it without root's identity; nothing when we have none.

    An interpreter below root's closed home stays readable through a capability; writing does not come with it.
    """
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    drop = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    # Seen from within: the step down itself may still be root's. The child of a child is what a user gets.
    probe = (sys.executable, "-c", "import subprocess, sys, rft.platform.cli; subprocess.run([sys.executable, '-V'])")
    for names in ((), ("dac_read_search",), ("dac_override",)):
        command = [*drop, *(f"--{kind}-caps=+{name}" for name in names for kind in ("inh", "ambient"))]
        if subprocess.run([*command, *probe], capture_output=True, cwd="/").returncode == 0:
            return command
    raise AssertionError("no way to run this interpreter as another user")
