"""Our side of the children that are forked for one piece of work: what they say is not believed before it is read."""

import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, NoReturn

from rft.grader_gateway.builtin.sandbox.one_grade import COMPILED, LOCKED, Limits, compile_and_exit

COMPILE_S = 10.0
"""To compile a source in; for the sources of one order together, where they are only checked."""
COMPILE_BYTES = 1024**3
_VERDICT_BYTES = 64 * 1024


def protocol() -> tuple[BinaryIO, BinaryIO]:
    """Our two ends, out of reach of what the grader prints or reads."""
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
    """Where memory runs short, a grader goes before the trainer."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def compile_problem(source: str, requests: BinaryIO, limits: Limits) -> dict[str, object] | None:
    """Why the source cannot be compiled: a few lines can take gigabytes, so a locked-up child tries first."""
    said, end = _told(lambda write_end: compile_and_exit(source, write_end, limits), requests, limits)
    if said == LOCKED + COMPILED:
        return None
    return _refusal(said, end) or _checked(said) or {"error": f"cannot be compiled: it {end}"}


def verdict(work: Callable[[int], NoReturn], requests: BinaryIO, limits: Limits) -> dict[str, object]:
    """What came of a child's work: a score, an error (the grader's doing) or a refusal (this machine's)."""
    said, end = _told(work, requests, limits)
    return _refusal(said, end) or _checked(said) or {"error": end}


def _told(work: Callable[[int], NoReturn], requests: BinaryIO, limits: Limits) -> tuple[bytes, str]:
    """What a child said that was forked for this work, and how it ended."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        work(write_end)
    os.close(write_end)
    try:
        said = _read_verdict(read_end, requests, time.monotonic() + limits.timeout_s)
    finally:
        os.close(read_end)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if said is None:
        return LOCKED, f"took longer than {limits.timeout_s:g} s"
    return said, _end(status, limits)


def _read_verdict(read_end: int, requests: BinaryIO, deadline_s: float) -> bytes | None:
    """What the child wrote until it ended; None when it did not end in time. Ends us when our host has gone."""
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    poll.register(requests, select.POLLIN)
    verdict = b""
    while (left_s := deadline_s - time.monotonic()) > 0:
        ready = {descriptor for descriptor, _ in poll.poll(left_s * 1000)}
        if requests.fileno() in ready:
            sys.exit(0)  # nobody waits for this verdict any more; the child is killed on the way out
        if read_end in ready:
            chunk = os.read(read_end, _VERDICT_BYTES)
            verdict += chunk
            if not chunk or len(verdict) > _VERDICT_BYTES:
                return verdict
    return None


def _refusal(said: bytes, end: str) -> dict[str, object] | None:
    """Why this machine cannot hold the code. Only the word of a child that had not begun to run it is believed."""
    if said.startswith(LOCKED):
        return None
    with suppress(ValueError):
        return {"refused": str(json.loads(said)["refused"])[:1000]}
    return {"refused": f"the grader's process {end} before it was locked up"}


def _checked(said: bytes) -> dict[str, object] | None:
    """The verdict when it is one: it was written by a process that runs foreign code."""
    try:
        read = json.loads(said.removeprefix(LOCKED))
    except (ValueError, RecursionError):
        return None
    match read:
        case {"score": float() as score}:
            return {"score": score} if math.isfinite(score) else {"error": f"returned {score}, which is not finite"}
        case {"error": str() as words}:
            return {"error": words[:1000]}
        case _:
            return None


def _end(status: int, limits: Limits) -> str:
    if not os.WIFSIGNALED(status):
        return "ended its process without a verdict"
    name = signal.Signals(os.WTERMSIG(status)).name
    if name == "SIGXCPU":
        return f"took longer than {limits.timeout_s:g} s"
    return f"was killed ({name})" if name == "SIGKILL" else f"crashed ({name})"
