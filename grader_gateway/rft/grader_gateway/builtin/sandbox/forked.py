"""Our side of the children that are forked for one piece of work: what they say is not believed before it is read."""

import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, NamedTuple, NoReturn

from rft.grader_gateway.builtin.sandbox.limits import Limits, OwnTime, patience_s
from rft.grader_gateway.builtin.sandbox.one_grade import COMPILED, LOCKED, compile_and_exit, end_with

COMPILE_S = 10.0
"""To compile a source in; for the sources of one order together, where they are only checked."""
COMPILE_BYTES = 1024**3
_VERDICT_BYTES = 64 * 1024
_SHOWN_CHARS = 1_000
_TRACEBACK_CHARS = 4_000
_LOOK_FOR_END_S = 0.001
"""Where the kernel does not tell of a child's end by a descriptor."""
_OWN_SIGNALS = frozenset(
    {
        signal.SIGABRT, signal.SIGALRM, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGPIPE, signal.SIGPROF,
        signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP, signal.SIGVTALRM, signal.SIGXCPU, signal.SIGXFSZ,
    }
)  # fmt: skip
"""What a locked-up process can bring upon itself. It can send no signal: any other end is somebody else's doing."""


def protocol() -> tuple[BinaryIO, BinaryIO]:
    """Our two ends, out of reach of what the grader prints or reads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A child that is interrupted by another has not raised anything.
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return requests, replies


def reply_with(replies: BinaryIO, reply: dict[str, object]) -> None:
    """One line to our host."""
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()


def give_way() -> None:
    """When memory runs short, the kernel is to kill a grader before the trainer."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def reply_from_apart(replies: BinaryIO, answer: Callable[[], dict[str, object]]) -> bool:
    """Reply with what is found out in a fork of ours; False, and no whole line, where the fork did not come to its end.

    The fork is forgotten with all that it read, and the reply passes from pipe to pipe: we never hold any of it.
    """
    read_end, write_end = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        status = 1
        try:
            end_with(parent)
            with os.fdopen(write_end, "wb") as own:
                own.write(json.dumps(answer()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    while os.splice(read_end, replies.fileno(), _VERDICT_BYTES):
        pass
    os.close(read_end)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        replies.write(
            json.dumps({"lost": f"the process beside the grader's was killed from outside ({name})"}).encode()
        )
    if status == 0 or os.WIFSIGNALED(status):
        replies.write(b"\n")  # Only now: who reads a whole line may count on all processes of this grade being gone.
        replies.flush()
    return status == 0


def compile_problem(source: str, requests: BinaryIO, limits: Limits) -> dict[str, object] | None:
    """Why the source cannot be compiled: a few lines can take gigabytes, so a locked-up child tries first."""
    ended = _ended(lambda write_end: compile_and_exit(source, write_end, limits), requests, limits)
    if ended.said == LOCKED + COMPILED:
        return None
    return _not_its_doing(ended) or _checked(ended.said) or {"error": f"cannot be compiled: it {ended.how}"}


def verdict(work: Callable[[int], NoReturn], requests: BinaryIO, limits: Limits) -> dict[str, object]:
    """What came of a child's work: a score, an error (the grader's doing), a refusal or a loss (this machine's)."""
    ended = _ended(work, requests, limits)
    return _not_its_doing(ended) or _checked(ended.said) or {"error": ended.how}


class _Ended(NamedTuple):
    """A child that has ended."""

    said: bytes
    how: str
    """A sentence for people."""
    is_own_doing: bool
    """Nothing but itself ended it."""


def _ended(work: Callable[[int], NoReturn], requests: BinaryIO, limits: Limits) -> _Ended:
    """Fork a child for this work and wait for its end: only then is anything made of what it said.

    A child that says no more may still run, and what is heard first of its last word and its end is chance.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        work(write_end)
    os.close(write_end)
    watched = _Watched(child, read_end, limits)
    try:
        why_not = watched.wait(requests)
    finally:
        watched.end()
    return why_not or _Ended(watched.said, *_end(watched, limits))


class _Watched:
    """A child under way. `end` it, whatever happens."""

    def __init__(self, child: int, read_end: int, limits: Limits) -> None:
        self._child, self._read_end, self._limits = child, read_end, limits
        self._end = _descriptor(child)
        self._given_up_s = time.monotonic() + patience_s(limits.timeout_s)
        self._time = OwnTime(child, look_s=limits.look_s)
        self._look_s = time.monotonic() + limits.look_s
        self.said = b""
        self.status: int | None = None
        """How it ended."""
        self.computed_s = 0.0

    def wait(self, requests: BinaryIO) -> _Ended | None:
        """Until it has ended; what becomes of it where it does not by itself. Ends us when our host has gone."""
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        poll.register(requests, select.POLLIN)
        if self._end is not None:
            poll.register(self._end, select.POLLIN)
        is_heard = True
        while True:
            wait_s = max(0.0, self._look_s - time.monotonic())
            if not is_heard and self._end is None:
                wait_s = min(wait_s, _LOOK_FOR_END_S)
            ready = {descriptor for descriptor, _ in poll.poll(math.ceil(wait_s * 1000))}
            if requests.fileno() in ready:
                sys.exit(0)  # nobody waits for this verdict any more; the child is killed on the way out
            if self._read_end in ready:
                chunk = os.read(self._read_end, _VERDICT_BYTES)
                self.said += chunk
                if len(self.said) > _VERDICT_BYTES:
                    return _Ended(LOCKED, "wrote more than a verdict", is_own_doing=True)
                if not chunk:
                    is_heard = False
                    poll.unregister(self._read_end)
            if not is_heard and self._has_ended():
                return None
            if time.monotonic() >= self._look_s and (too_long := self._too_long()):
                return too_long

    def _too_long(self) -> _Ended | None:
        limit_s = self._limits.timeout_s
        spent_s, now_s = self._time.spent_s(), time.monotonic()
        if spent_s >= limit_s:
            return _Ended(LOCKED, f"took longer than {limit_s:g} s", is_own_doing=True)
        if now_s >= self._given_up_s:
            passed_s = patience_s(limit_s)
            message = f"had only {spent_s:.1f} s of its {limit_s:g} s within {passed_s:g} s: this machine is too busy"
            return _Ended(self.said, message, is_own_doing=False)
        self._look_s = now_s + min(self._limits.look_s, max(0.001, limit_s - spent_s))
        return None

    def _has_ended(self, options: int = os.WNOHANG) -> bool:
        child, status, usage = os.wait4(self._child, options)
        if child == 0:
            return False
        self.status, self.computed_s = status, _computed_s(usage)
        return True

    def end(self) -> None:
        """It ends now, if it has not."""
        if self.status is None:
            os.kill(self._child, signal.SIGKILL)
            self._has_ended(0)
        for descriptor in (self._read_end, self._end):
            if descriptor is not None:
                os.close(descriptor)


def _descriptor(child: int) -> int | None:
    """What becomes readable when the child ends; None before Linux 5.3."""
    try:
        return os.pidfd_open(child)
    except OSError:
        return None


def _computed_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _not_its_doing(ended: _Ended) -> dict[str, object] | None:
    """What this machine did. Only the word of a child that had not begun to run foreign code is believed."""
    if not ended.is_own_doing:
        return {"lost": f"the grader's process {ended.how}"}
    if ended.said.startswith(LOCKED):
        return None
    with suppress(ValueError, KeyError, TypeError):
        return {"refused": str(json.loads(ended.said)["refused"])[:_SHOWN_CHARS]}
    return {"refused": f"the grader's process {ended.how} before it was locked up"}


def _checked(said: bytes) -> dict[str, object] | None:
    """The verdict when it is one: it was written by a process that runs foreign code."""
    try:
        read = json.loads(said.removeprefix(LOCKED))
    except (ValueError, RecursionError):
        return None
    match read:
        case {"score": float() as score}:
            return {"score": score} if math.isfinite(score) else {"error": f"returned {score}, which is not finite"}
        case {"error": str() as message, "traceback": str() as shown}:
            return {"error": message[:_SHOWN_CHARS], "traceback": shown[-_TRACEBACK_CHARS:]}
        case {"error": str() as message}:
            return {"error": message[:_SHOWN_CHARS]}
        case _:
            return None


def _end(watched: _Watched, limits: Limits) -> tuple[str, bool]:
    """How a child ended by itself, and whether that was its own doing."""
    status = watched.status
    assert status is not None, "it was waited for"
    if not os.WIFSIGNALED(status):
        return "ended its process without a verdict", True
    number = os.WTERMSIG(status)
    # The limit on processor time kills, too, where its first signal is not heeded.
    if number == signal.SIGXCPU or (number == signal.SIGKILL and watched.computed_s >= limits.timeout_s):
        return f"took longer than {limits.timeout_s:g} s", True
    name = signal.Signals(number).name
    if number in _OWN_SIGNALS:
        return f"crashed ({name})", True
    return f"was killed from outside ({name})", False
