"""Files: nothing but the interpreter's own libraries can be read, nothing written (Landlock, Linux)."""

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The same numbers on every processor."""
_RULE_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_HANDLED_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Every right that a version of Landlock knows to withhold; later versions know version 5's."""
_HANDLED_NETWORK = 0b11
"""TCP bind and connect, from version 4."""
_HANDLED_SCOPES = 0b11
"""Abstract sockets and signals to processes outside, from version 6."""
_PR_SET_NO_NEW_PRIVS = 38

_SHARED = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/usr/share/zoneinfo",
    "/etc/localtime", "/dev/null", "/dev/urandom", "/usr/share/nltk_data",
)  # fmt: skip


PROCESSES = "/proc"
"""For a process that runs no foreign code, to look after the children that do."""


def allow_libraries_only(*besides: str) -> bool:
    """For this process and all it starts, for ever; children may take `besides` away from themselves by asking again.

    False where the kernel has no Landlock: then nothing is changed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    files = _HANDLED_FILES[min(version, max(_HANDLED_FILES))]
    attributes = struct.pack("=Q", files)
    if version >= 4:
        attributes += struct.pack("=Q", _HANDLED_NETWORK)
    if version >= 6:
        attributes += struct.pack("=Q", _HANDLED_SCOPES)
    ruleset = libc.syscall(
        ctypes.c_long(_CREATE_RULESET), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)
    )
    if ruleset < 0:
        return False
    try:
        for path in (*_readable(), *besides):
            with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
                _allow(libc, ruleset, path)
        none = ctypes.c_ulong(0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), none, none, none)
        return bool(libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0)
    finally:
        os.close(ruleset)


def _readable() -> Iterator[str]:
    paths = sysconfig.get_paths()
    yield from {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    yield os.path.join(sys.base_prefix, "lib")
    yield os.path.join(sys.prefix, "nltk_data")
    yield from _SHARED


def _allow(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE
        rule = struct.pack("=Qi", rights, descriptor)
        libc.syscall(
            ctypes.c_long(_ADD_RULE), ctypes.c_int(ruleset), ctypes.c_int(_RULE_BENEATH), rule, ctypes.c_uint32(0)
        )
    finally:
        os.close(descriptor)
