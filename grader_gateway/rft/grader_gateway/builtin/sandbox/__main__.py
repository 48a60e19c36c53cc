"""The process of one python grader: it imports once, and forks a locked-up process for every grade. It reads no row.

Line protocol on standard input and output: the setup, answered by `{"ready": true}`; then a line per grade, answered
by `{"score": 0.5}` or `{"error": "...", "traceback": "..."}` (the grader's doing). Instead of either:

- `{"unusable": "..."}`: the source cannot be compiled
- `{"refused": "..."}`: this machine cannot hold it
- `{"lost": "..."}`: this machine ended it
"""

import ast
import gc
import json
import select
import types
import warnings
from typing import BinaryIO

from rft.grader_gateway.builtin.sandbox.file_access import PROCESSES, allow_libraries_only
from rft.grader_gateway.builtin.sandbox.forked import (
    COMPILE_BYTES,
    COMPILE_S,
    compile_problem,
    give_way,
    protocol,
    reply_from_apart,
    reply_with,
    verdict,
)
from rft.grader_gateway.builtin.sandbox.limits import Limits
from rft.grader_gateway.builtin.sandbox.one_grade import SOURCE_NAME, grade_and_exit, remember_lines
from rft.grader_gateway.builtin.sandbox.preload import preload, preload_always, preload_with_disk
from rft.grader_gateway.builtin.sandbox.system_calls import machine_problem


def main() -> None:
    """Serve until standard input ends."""
    requests, replies = protocol()
    setup = json.loads(requests.readline())
    if problem := machine_problem():
        reply_with(replies, {"refused": problem})
        return
    give_way()
    warnings.simplefilter("ignore")
    limits = Limits(timeout_s=setup["timeout_s"], memory_bytes=setup["memory_bytes"])
    preload_always()
    trial = Limits(timeout_s=COMPILE_S, memory_bytes=min(limits.memory_bytes, COMPILE_BYTES))
    if problem := compile_problem(setup["source"], requests, trial):
        reply_with(replies, {"unusable": problem["error"]} if "error" in problem else problem)
        return
    tree = ast.parse(setup["source"], SOURCE_NAME)
    preload_with_disk(tree)
    # Up to here the source was read, by a compiler locked up in a child and by a parser; nothing of it was run.
    has_file_rules = setup["has_file_rules"] and allow_libraries_only(PROCESSES)
    preload(tree)
    code = compile(tree, SOURCE_NAME, "exec", dont_inherit=True)
    del tree
    remember_lines(setup["source"])
    gc.freeze()  # the children share these pages
    reply_with(replies, {"ready": True})
    while _is_asked(requests):
        if not reply_from_apart(replies, lambda: _graded(code, requests, limits, has_file_rules=has_file_rules)):
            return  # How much of the request was read nobody knows.


def _is_asked(requests: BinaryIO) -> bool:
    """Waits for a request; False once none can come. Nothing of it is read here: the children inherit this memory."""
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll())


def _graded(code: types.CodeType, requests: BinaryIO, limits: Limits, *, has_file_rules: bool) -> dict[str, object]:
    request = requests.readline()
    return verdict(
        lambda write_end: grade_and_exit(code, request, write_end, limits, has_file_rules=has_file_rules),
        requests,
        limits,
    )


if __name__ == "__main__":
    main()
