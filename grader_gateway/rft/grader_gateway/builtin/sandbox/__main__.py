"""The process of one python grader: it imports once, and forks a locked-up process for every grade.

Line protocol on standard input and output: the setup, answered by `{"ready": true}`; then a line per grade, answered by
`{"score": 0.5}`. Instead of either: `{"error": "..."}` (the grader's doing) or `{"refused": "..."}` (this machine's).
"""

import ast
import gc
import json
import math
import os
import select
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, NoReturn

from rft.grader_gateway.builtin.sandbox.file_access import allow_libraries_only
from rft.grader_gateway.builtin.sandbox.one_grade import (
    COMPILED,
    LOCKED,
    SOURCE_NAME,
    Limits,
    compile_and_exit,
    grade_and_exit,
)
from rft.grader_gateway.builtin.sandbox.preload import preload, preload_always
from rft.grader_gateway.builtin.sandbox.system_calls import machine_problem

_VERDICT_BYTES = 64 * 1024
_COMPILE_S = 10.0
_COMPILE_BYTES = 1024**3


def main() -> None:
    """Serve until standard input ends."""
    requests, replies = _protocol()
    setup = json.loads(requests.readline())
    if problem := machine_problem():
        _reply(replies, {"refused": problem})
        return
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # where memory runs short, a grader goes before the trainer
    has_file_rules = setup["has_file_rules"] and allow_libraries_only()
    warnings.simplefilter("ignore")
    limits = Limits(timeout_s=setup["timeout_s"], memory_bytes=setup["memory_bytes"])
    preload_always()
    if problem := _compile_problem(setup["source"], requests, limits):
        _reply(replies, problem)
        return
    tree = ast.parse(setup["source"], SOURCE_NAME)
    preload(tree)
    code = compile(tree, SOURCE_NAME, "exec", dont_inherit=True)
    del tree
    gc.freeze()  # the children share these pages
    _reply(replies, {"ready": True})
    while request := requests.readline():
        _reply(replies, _grade(code, request, requests, limits, has_file_rules=has_file_rules))


def _protocol() -> tuple[BinaryIO, BinaryIO]:
    """Our two ends, out of reach of what the grader prints or reads."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return requests, replies


def _reply(replies: BinaryIO, reply: dict[str, object]) -> None:
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()


def _compile_problem(source: str, requests: BinaryIO, limits: Limits) -> dict[str, object] | None:
    """Why the source cannot be compiled: a few lines can take gigabytes, so a locked-up child tries first."""
    trial = Limits(timeout_s=_COMPILE_S, memory_bytes=min(limits.memory_bytes, _COMPILE_BYTES))
    said, end = _told(lambda write_end: compile_and_exit(source, write_end, trial), requests, trial)
    if said == LOCKED + COMPILED:
        return None
    return _refusal(said, end) or _checked(said) or {"error": f"cannot be compiled: it {end}"}


def _grade(
    code: types.CodeType, request: bytes, requests: BinaryIO, limits: Limits, *, has_file_rules: bool
) -> dict[str, object]:
    said, end = _told(
        lambda write_end: grade_and_exit(code, request, write_end, limits, has_file_rules=has_file_rules),
        requests,
        limits,
    )
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


if __name__ == "__main__":
    main()
