"""The system calls that computing needs, and the filter that lets through no others (seccomp, Linux).

This module and its neighbours are imported at each start of a sandbox: only what is quick to import, so no dataclasses.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

_ALLOWED = """
    0/63 read  1/64 write  3/57 close  4/- stat  5/80 fstat  6/- lstat  7/- poll  8/62 lseek  9/222 mmap
    10/226 mprotect  11/215 munmap  12/214 brk  13/134 rt_sigaction  14/135 rt_sigprocmask  15/139 rt_sigreturn
    127/136 rt_sigpending  128/137 rt_sigtimedwait  130/133 rt_sigsuspend  17/67 pread64  19/65 readv  20/66 writev
    21/- access  23/- select  24/124 sched_yield  25/216 mremap  27/232 mincore  28/233 madvise  32/23 dup  33/- dup2
    292/24 dup3  34/- pause  35/101 nanosleep  36/102 getitimer  37/- alarm  38/103 setitimer  39/172 getpid
    186/178 gettid  60/93 exit  231/94 exit_group  63/160 uname  79/17 getcwd  89/- readlink  96/169 gettimeofday
    97/163 getrlimit  98/165 getrusage  99/179 sysinfo  100/153 times  102/174 getuid  104/176 getgid  107/175 geteuid
    108/177 getegid  110/173 getppid  131/132 sigaltstack  201/- time  202/98 futex  204/123 sched_getaffinity
    217/61 getdents64  228/113 clock_gettime  229/114 clock_getres  230/115 clock_nanosleep  262/79 newfstatat
    267/78 readlinkat  269/48 faccessat  270/72 pselect6  271/73 ppoll  273/99 set_robust_list  318/278 getrandom
    332/291 statx  334/293 rseq  219/128 restart_syscall  324/283 membarrier  309/168 getcpu
"""
"""`number on x86-64/number on ARM64 name`; `-` where the call does not exist. Nothing here makes a process or a thread,
reaches the network, another process or a file's content; it may only use the descriptors that are open already."""

_UNKNOWN = (435, 437, 439, 449)
"""clone3, openat2, faccessat2, futex_waitv: answered "no such call", so that the C library uses the older ones."""

_WRITE_FLAGS = (
    os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY)
    if sys.platform == "linux"
    else 0
)
_IOCTLS = (0x5401, 0x5450, 0x5451, 0x541B)
"""Is it a terminal, (un)set close-on-exec, bytes to read."""
_FCNTLS = (0, 1, 2, 3, 1030)
"""Duplicate, get and set descriptor flags, get status flags."""

_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_IF_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER_MODE = 38, 22, 2


class _Machine(NamedTuple):
    audit_name: int
    column: int
    """Which of the two numbers in `_ALLOWED` is its own."""
    open: int | None
    openat: int
    ioctl: int
    fcntl: int
    prlimit: int


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 0, open=2, openat=257, ioctl=16, fcntl=72, prlimit=302),
    "aarch64": _Machine(0xC00000B7, 1, open=None, openat=56, ioctl=29, fcntl=25, prlimit=261),
}


class SandboxError(Exception):
    """This machine cannot hold foreign code; none is run."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def machine_problem() -> str | None:
    """Why this machine cannot run python graders at all."""
    if sys.platform != "linux":
        return f"python graders need Linux, this is {sys.platform}"
    if os.uname().machine not in _MACHINES or sys.byteorder != "little":
        return f"python graders need an x86-64 or ARM64 processor, this is {os.uname().machine}"
    return None


def forbid_all_but_computing(*, may_read_files: bool) -> None:
    """For this process and for ever. `may_read_files` only where something else decides which. Raises SandboxError."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(_filter(_MACHINES[os.uname().machine], may_read_files=may_read_files))
    held = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(held, ctypes.c_void_p))
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), ctypes.c_ulong(0)),
        (_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER_MODE), ctypes.byref(program)),
    ):
        if libc.prctl(*arguments, ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            raise SandboxError(f"the kernel does not filter system calls ({os.strerror(ctypes.get_errno())})")


def _filter(machine: _Machine, *, may_read_files: bool) -> Iterator[bytes]:
    yield _code(_LOAD, _ARCHITECTURE)
    yield _code(_JUMP_IF_EQUAL, machine.audit_name, then=1)
    yield _code(_RETURN, _KILL)
    yield _code(_LOAD, _NUMBER)
    for number in _numbers(machine):
        yield from _on(number, _code(_RETURN, _ALLOW))
    for number in _UNKNOWN:
        yield from _on(number, _code(_RETURN, _ERRNO | _ENOSYS))
    for number, argument in ((machine.open, 1), (machine.openat, 2)):
        if number is not None:
            yield from _on(number, *(_if_no_bits(argument, _WRITE_FLAGS) if may_read_files else ()),
                           _code(_RETURN, _ERRNO | _EACCES))  # fmt: skip
    yield from _on(machine.ioctl, *_if_one_of(1, _IOCTLS), _code(_RETURN, _ERRNO | _EPERM))
    yield from _on(machine.fcntl, *_if_one_of(1, _FCNTLS), _code(_RETURN, _ERRNO | _EPERM))
    # Limits may be asked for (no new value given), never changed.
    yield from _on(machine.prlimit, *_if_null(2), _code(_RETURN, _ERRNO | _EPERM))
    yield _code(_RETURN, _ERRNO | _EPERM)


def _numbers(machine: _Machine) -> Iterator[int]:
    for word in _ALLOWED.split():
        if "/" in word and (number := word.split("/")[machine.column]) != "-":
            yield int(number)


def _code(operation: int, operand: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, then, otherwise, operand)


def _on(number: int, *body: bytes) -> Iterator[bytes]:
    yield _code(_JUMP_IF_EQUAL, number, otherwise=len(body))
    yield from body


def _if_no_bits(argument: int, bits: int) -> Iterator[bytes]:
    yield _code(_LOAD, _ARGUMENTS + 8 * argument)
    yield _code(_AND, bits)
    yield _code(_JUMP_IF_EQUAL, 0, otherwise=1)
    yield _code(_RETURN, _ALLOW)


def _if_one_of(argument: int, values: tuple[int, ...]) -> Iterator[bytes]:
    yield _code(_LOAD, _ARGUMENTS + 8 * argument)
    for value in values:
        yield _code(_JUMP_IF_EQUAL, value, otherwise=1)
        yield _code(_RETURN, _ALLOW)


def _if_null(argument: int) -> Iterator[bytes]:
    yield _code(_LOAD, _ARGUMENTS + 8 * argument)
    yield _code(_JUMP_IF_EQUAL, 0, otherwise=3)
    yield _code(_LOAD, _ARGUMENTS + 8 * argument + 4)
    yield _code(_JUMP_IF_EQUAL, 0, otherwise=1)
    yield _code(_RETURN, _ALLOW)
