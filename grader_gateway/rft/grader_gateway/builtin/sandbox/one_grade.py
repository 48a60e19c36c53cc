"""One grade in a process of its own that was forked for it: lock up, run the grader's code, write the verdict, end."""

import ctypes
import decimal
import json
import math
import numbers
import os
import resource
import signal
import sys
import types
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from rft.grader_gateway.builtin.sandbox.system_calls import forbid_all_but_computing

SOURCE_NAME = "<grader>"
LOCKED = b"locked\n"
"""Written before foreign code runs: what this machine refuses can only be said before it, a verdict only after it."""
COMPILED = b"compiled"
_SHOWN_CHARS = 300
_PR_SET_PDEATHSIG = 1


class Limits(NamedTuple):
    """What one grade may use."""

    timeout_s: float
    memory_bytes: int


def grade_and_exit(
    code: types.CodeType, request: bytes, verdict_to: int, limits: Limits, *, has_file_rules: bool
) -> NoReturn:
    """Never returns: the process ends here."""
    _say_and_exit(verdict_to, limits, lambda: _told(_run(code, request)), has_file_rules=has_file_rules)


def compile_and_exit(source: str, verdict_to: int, limits: Limits) -> NoReturn:
    """Whether the source can be compiled within the limits; never returns."""
    _say_and_exit(verdict_to, limits, lambda: _tried(source), has_file_rules=False)


def _say_and_exit(verdict_to: int, limits: Limits, verdict: Callable[[], bytes], *, has_file_rules: bool) -> NoReturn:
    try:
        try:
            _lock_up(verdict_to, limits, has_file_rules=has_file_rules)
        except BaseException as error:
            os.write(verdict_to, _told({"refused": f"the grader's process could not be locked up ({error})"}))
        else:
            os.write(verdict_to, LOCKED)
            os.write(verdict_to, verdict())
    finally:
        os._exit(0)


def _told(verdict: dict[str, object]) -> bytes:
    return json.dumps(verdict).encode()


def _tried(source: str) -> bytes:
    try:
        compile(source, SOURCE_NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        return _told({"error": f"is not Python: {error.msg} (line {error.lineno})"})
    except MemoryError:
        return _told({"error": "needs too much memory to be compiled"})
    except (ValueError, RecursionError, OverflowError) as error:
        return _told({"error": f"cannot be compiled: {error}"})
    return COMPILED


def _lock_up(verdict_to: int, limits: Limits, *, has_file_rules: bool) -> None:
    zygote = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != zygote:
        os._exit(1)
    os.closerange(3, verdict_to)  # 0, 1 and 2 lead nowhere already
    os.closerange(verdict_to + 1, 4096)
    seconds = math.ceil(limits.timeout_s) + 1
    for kind, soft, hard in (
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
        (resource.RLIMIT_NOFILE, 64, 64),
    ):
        resource.setrlimit(kind, (soft, hard))
    os.environ.clear()
    forbid_all_but_computing(may_read_files=has_file_rules)


def _run(code: types.CodeType, request: bytes) -> dict[str, object]:
    try:
        asked = json.loads(request)
        module = types.ModuleType("grader")
        sys.modules["grader"] = module
        exec(code, module.__dict__)
        return _judged(module.grade(asked["sample"], asked["item"]))
    except MemoryError:
        return {"error": "ran out of memory"}
    except BaseException as error:
        return {"error": f"raised {_last_line(error)}"}


def _judged(value: object) -> dict[str, object]:
    if isinstance(value, bool) or not isinstance(value, numbers.Real | decimal.Decimal):
        return {"error": f"returned {_kind(value)}, not a number"}
    score = float(value)
    if not math.isfinite(score):
        return {"error": f"returned {score}, which is not finite"}
    return {"score": score}


def _kind(value: object) -> str:
    return "nothing (None)" if value is None else f"a value of type {type(value).__name__}"


def _last_line(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero (line 3)`, without the paths of our interpreter."""
    try:
        words = str(error)
    except BaseException:
        words = "(an error without readable words)"
    for path in sorted({sys.prefix, sys.base_prefix, *sys.path} - {""}, key=len, reverse=True):
        words = words.replace(path, "<python>")
    text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    line = _line(error)
    return text[:_SHOWN_CHARS] + (f" (line {line})" if line else "")


def _line(error: BaseException) -> int | None:
    line, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == SOURCE_NAME:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line
