"""One grade in a process of its own that was forked for it: lock up, run the grader's code, write the verdict, end."""

import ctypes
import decimal
import json
import linecache
import math
import numbers
import os
import resource
import signal
import sys
import traceback
import types
from collections.abc import Callable
from typing import NoReturn

from rft.grader_gateway.builtin.sandbox.file_access import allow_libraries_only
from rft.grader_gateway.builtin.sandbox.limits import Limits
from rft.grader_gateway.builtin.sandbox.system_calls import SandboxError, forbid_all_but_computing

SOURCE_NAME = "<grader>"
LOCKED = b"locked\n"
"""Written before foreign code runs: what this machine refuses can only be said before it, a verdict only after it."""
COMPILED = b"compiled"
_SHOWN_CHARS = 300
_SHOWN_FRAMES = 8
_LINE_CHARS = 200
_PR_SET_PDEATHSIG = 1
_ENVIRONMENT = frozenset({"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
"""Number libraries that are imported late must not look for threads: some end their process when they get none."""


def remember_lines(source: str) -> None:
    """Tracebacks show lines of the source: no file has them."""
    linecache.cache[SOURCE_NAME] = (len(source), None, source.splitlines(keepends=True), SOURCE_NAME)


def grade_and_exit(
    code: types.CodeType, request: bytes, verdict_to: int, limits: Limits, *, has_file_rules: bool
) -> NoReturn:
    """Never returns: the process ends here."""

    def prepared() -> Callable[[], bytes]:
        asked = json.loads(request)
        return lambda: _told(_run(code, asked["sample"], asked["item"]))

    _say_and_exit(verdict_to, limits, prepared, has_file_rules=has_file_rules)


def compile_and_exit(source: str, verdict_to: int, limits: Limits) -> NoReturn:
    """Whether the source can be compiled within the limits; never returns."""
    _say_and_exit(verdict_to, limits, lambda: lambda: _tried(source), has_file_rules=False)


def _say_and_exit(
    verdict_to: int, limits: Limits, prepared: Callable[[], Callable[[], bytes]], *, has_file_rules: bool
) -> NoReturn:
    """`prepared`: all that is ours to do once locked up; what it returns runs what is not ours."""
    try:
        try:
            _lock_up(verdict_to, limits, has_file_rules=has_file_rules)
            verdict = prepared()
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


def end_with(parent: int) -> None:
    """This process ends when its parent does, and now if that has happened."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def _lock_up(verdict_to: int, limits: Limits, *, has_file_rules: bool) -> None:
    end_with(os.getppid())
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
    for name in set(os.environ) - _ENVIRONMENT:
        del os.environ[name]
    # The process that forked us may look into /proc, to tell the time of its children; these may not.
    if has_file_rules and not allow_libraries_only():
        raise SandboxError("the kernel's file rules cannot be used twice")
    forbid_all_but_computing(may_read_files=has_file_rules)


def _run(code: types.CodeType, sample: object, item: object) -> dict[str, object]:
    try:
        module = types.ModuleType("grader")
        sys.modules["grader"] = module
        exec(code, module.__dict__)
        return _verdict(module.grade(sample, item))
    except MemoryError:
        return {"error": "ran out of memory"}
    except BaseException as error:
        message = _message(error)
        return {"error": f"raised {message}{_at_line(error)}", "traceback": _traceback(error, message)}


def _verdict(value: object) -> dict[str, object]:
    """The score: a number, or what Python and numpy call true and false."""
    if _is_truth_of_numpy(value):
        return {"score": float(bool(value))}
    if not isinstance(value, numbers.Real | decimal.Decimal):
        return {"error": f"returned {_kind(value)}, not a number"}
    score = _as_float(value)
    if not math.isfinite(score):
        return {"error": f"returned {score}, which is not finite"}
    return {"score": score}


def _as_float(value: numbers.Real | decimal.Decimal) -> float:
    """The number; one that is finite stays so, if it is far too large as well."""
    largest = sys.float_info.max
    try:
        score = float(value)
    except OverflowError:
        return -largest if value < 0 else largest
    if math.isinf(score) and isinstance(value, decimal.Decimal) and value.is_finite():
        return math.copysign(largest, score)
    return score


def _is_truth_of_numpy(value: object) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _kind(value: object) -> str:
    return "nothing (None)" if value is None else f"a value of type {type(value).__name__}"


def _message(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero`, without the paths of our interpreter."""
    try:
        message = str(error)
    except BaseException:
        message = "(an error without readable words)"
    text = f"{type(error).__name__}: {message[:10_000]}" if message else type(error).__name__
    return _without_paths(text)[:_SHOWN_CHARS]


def _without_paths(text: str) -> str:
    for path in sorted({sys.prefix, sys.base_prefix, *sys.path} - {""}, key=len, reverse=True):
        text = text.replace(path, "<python>")
    return text


def _at_line(error: BaseException) -> str:
    """The last line of the source that it went through."""
    line, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == SOURCE_NAME:
            line = frame.tb_lineno
        frame = frame.tb_next
    return f" (line {line})" if line else ""


def _traceback(error: BaseException, message: str) -> str:
    """As Python shows it, from the source on; of many frames the last."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != SOURCE_NAME:
        frame = frame.tb_next
    try:
        shown = traceback.format_list(traceback.extract_tb(frame, limit=-_SHOWN_FRAMES))
        lines = [line[:_LINE_CHARS] for line in "".join(shown).splitlines()]
    except BaseException:
        lines = []
    return "\n".join(("Traceback (most recent call last):", *map(_without_paths, lines), message))
