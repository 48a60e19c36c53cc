"""The process that checks the sources of one order before anybody depends on them: it reads and compiles, it runs none.

One line in, `{"sources": [...]}`; one line out: `{"bad": null}`, or the first that cannot grade and why,
`{"bad": 0, "problem": "..."}`; or `{"unchecked": "..."}`, where this machine could not finish.
"""

import json
import resource
import warnings
from collections.abc import Sequence
from typing import BinaryIO

from rft.grader_gateway.builtin.python_source import source_problem
from rft.grader_gateway.builtin.sandbox.file_access import PROCESSES, allow_libraries_only
from rft.grader_gateway.builtin.sandbox.forked import (
    COMPILE_BYTES,
    COMPILE_S,
    compile_problem,
    give_way,
    protocol,
    reply_with,
)
from rft.grader_gateway.builtin.sandbox.limits import Limits
from rft.grader_gateway.builtin.sandbox.preload import preload_always
from rft.grader_gateway.builtin.sandbox.system_calls import machine_problem


def main() -> None:
    """Check once."""
    requests, replies = protocol()
    sources = json.loads(requests.readline())["sources"]
    warnings.simplefilter("ignore")
    preload_always()
    give_way()
    # Where no source can be locked up none is compiled: the trainer's machine may be another one.
    can_compile = machine_problem() is None
    if can_compile:
        allow_libraries_only(PROCESSES)
    try:
        reply_with(replies, _first_bad(sources, requests, can_compile=can_compile))
    except _Lost as lost:
        reply_with(replies, {"unchecked": str(lost)})


class _Lost(Exception):
    """A child was ended by this machine, not by its source."""


def _first_bad(sources: Sequence[str], requests: BinaryIO, *, can_compile: bool) -> dict[str, object]:
    left_s = COMPILE_S
    for index, source in enumerate(sources):
        problem = source_problem(source)
        if problem is None and can_compile:
            before_s = _children_computed_s()
            problem = _compiler_says(source, requests, left_s)
            left_s -= _children_computed_s() - before_s
        if problem is not None:
            return {"bad": index, "problem": problem}
    return {"bad": None}


def _children_computed_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _compiler_says(source: str, requests: BinaryIO, left_s: float) -> str | None:
    if left_s > 0:
        match compile_problem(source, requests, Limits(timeout_s=left_s, memory_bytes=COMPILE_BYTES)):
            case None | {"refused": _}:
                return None
            case {"lost": str() as message}:
                raise _Lost(message)
            case {"error": str() as message} if "took longer than" not in message:
                return message
            case _:
                pass
    return f"cannot be compiled: all sources of a grader have {COMPILE_S:g} s together"


if __name__ == "__main__":
    main()
