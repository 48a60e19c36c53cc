"""One child process of ours that must never outlive us: the trainer, or the builder of the starter policy."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OURS_ALONE = {"DATABASE_URL", "BROKER_URL", "RFT_DATABASE_URL", "RFT_BROKER_URL"}
_SECRET_WORDS = ("KEY", "SECRET", "TOKEN", "PASSWORD")
_DEFAULTS = {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(slots=True)
class ChildProcess:
    """A process in its own group whose output goes to a log file."""

    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        """Its process id, and its group's."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """None while it lives; minus the signal when one killed it."""
        return self.process.returncode

    async def wait(self, timeout_s: float) -> bool:
        """Whether it ended within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.process.wait()
        except TimeoutError:
            return False
        return True

    def kill(self) -> None:
        """End the whole group at once."""
        self._signal(signal.SIGKILL)

    async def stop(self, grace_s: float) -> None:
        """Ask it to end (SIGTERM), then make it (SIGKILL)."""
        if self.returncode is None:
            self._signal(signal.SIGTERM)
            await self.wait(grace_s)
        self.kill()
        await self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return


async def launch(
    command: Sequence[str], *, log: Path, stdin: bytes = b"", temporary: Path | None = None
) -> ChildProcess:
    """Start `command`, feed it `stdin` and close the pipe. It is killed when this process dies.

    `temporary`: where its own temporary files go, by default where ours do.

    Raises OSError when it cannot be started.
    """
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=child_environment(os.environ) | ({} if temporary is None else {"TMPDIR": str(temporary)}),
            start_new_session=True,
            preexec_fn=die_with_parent(os.getpid()),
        )
    child = ChildProcess(process)
    assert process.stdin is not None
    try:
        process.stdin.write(stdin)
        await process.stdin.drain()
        process.stdin.close()
    except (BrokenPipeError, ConnectionResetError, RuntimeError):  # The last is uvloop's word for a closed pipe.
        pass  # It died before it read: the caller sees its exit status.
    return child


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a child may see: everything but the platform's own addresses and keys."""
    kept = {name: value for name, value in environment.items() if not _is_ours_alone(name)}
    return {**_DEFAULTS, **kept, "PYTHONUNBUFFERED": "1"}


def exit_message(returncode: int | None) -> str:
    """How a process ended, for a reader who knows no wait statuses."""
    if returncode is None:
        return "is still running"
    if returncode >= 0:
        return f"exited with status {returncode}"
    name = signal.Signals(-returncode).name
    hint = "; perhaps it ran out of memory" if -returncode == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def log_tail(log: Path, *, hide: Sequence[str] = (), lines: int = 12) -> str:
    """The last lines of a log, with every value of `hide` redacted."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        text = file.read().decode(errors="replace").replace("\x00", "")
    for secret in sorted((value for value in hide if value), key=len, reverse=True):
        text = text.replace(secret, "**********")
    return "\n".join(text.splitlines()[-lines:])


def _is_ours_alone(name: str) -> bool:
    return name in _OURS_ALONE or (name.startswith("RFT_") and any(word in name for word in _SECRET_WORDS))


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """What a child does before anything else, to get that signal when `parent` dies; None where that is unknown."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # The parent died before prctl could see it.
            os._exit(1)

    return in_child
