"""Child processes that never outlive us, and the remains of earlier ones."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rft.core.base import Record
from rft.platform.embedded.service_user import ServiceUser

POLL_S = 0.02
_PR_SET_PDEATHSIG = 1
_PROC = Path("/proc")
_libc: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


class ProcessId(Record):
    """A process, told apart from a later one with the same number by its start time (clock ticks since boot)."""

    pid: int
    started_ticks: int


def spawn(
    argv: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str],
    death_signal: signal.Signals,
    user: ServiceUser | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a child that gets `death_signal` when we die; output is appended to `log`.

    Own session: Ctrl-C in the terminal reaches only us. Call from a thread that lives as long as the child should
    (the kernel ties the signal to the thread). Raises OSError when it cannot be started.
    """
    with log.open("ab") as sink:
        return subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=dict(env),
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            umask=0o077,
            preexec_fn=_die_with_parent(death_signal),
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        )


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    if _libc is None:
        return None
    parent, libc = os.getpid(), _libc

    def ask_kernel() -> None:  # runs after setuid: a change of user would clear the request
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:
            os._exit(1)

    return ask_kernel


async def stop(child: subprocess.Popen[bytes], steps: Iterable[tuple[signal.Signals, float]]) -> bool:
    """Send each signal and wait its seconds until the child is gone, SIGKILL last; whether a kill was needed."""
    for sig, patience_s in steps:
        if child.poll() is not None:
            return False
        child.send_signal(sig)
        if await wait_until(lambda: child.poll() is not None, patience_s):
            return False
    child.kill()
    await wait_until(lambda: child.poll() is not None, 5)
    return True


async def wait_until(condition: Callable[[], bool], patience_s: float, poll_s: float = POLL_S) -> bool:
    """Poll `condition` until it holds; False when `patience_s` ran out."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(poll_s)
    return True


def has_proc() -> bool:
    """Whether this system shows its processes as files."""
    return (_PROC / "self" / "stat").exists()


def identify(pid: int) -> ProcessId | None:
    """Who has this number now; None if nobody, or only a zombie waiting for its parent."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in {"Z", "X"}:
        return None
    return ProcessId(pid=pid, started_ticks=int(fields[19]))


def _stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the state on (the name before it may hold spaces and brackets)."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(pid: int) -> list[ProcessId]:
    """All living processes below `pid`; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*"):
        fields = _stat_fields(int(entry.name))
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    queue = children.get(pid, [])
    while queue:
        found.extend(queue)
        queue = [grandchild for child in queue for grandchild in children.get(child, [])]
    return [known for known in map(identify, found) if known is not None]


async def end_all(processes: Iterable[ProcessId], sig: signal.Signals, patience_s: float) -> None:
    """Signal those still alive, wait, then SIGKILL the rest. Other processes that reuse a number are left alone."""

    def living() -> list[ProcessId]:
        return [process for process in known if identify(process.pid) == process]

    known = list(processes)
    for this_signal, this_patience_s in ((sig, patience_s), (signal.SIGKILL, 5.0)):
        for process in living():
            try:
                os.kill(process.pid, this_signal)
            except ProcessLookupError:
                continue
        if await wait_until(lambda: not living(), this_patience_s):
            return


def log_end(log: Path, lines: int = 15) -> str:
    """The log's path and its last lines, for an error message."""
    last = log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join((f"the end of {log}:", *last))
