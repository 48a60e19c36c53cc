"""Names of lease holders, and what another process of the same machine can tell from them."""

import hashlib
import os
import secrets
import socket
from functools import cache
from pathlib import Path


def new_owner() -> str:
    """`host/pid/machine-random`; the host comes first, because slots are counted per host."""
    return f"{socket.gethostname()}/{os.getpid()}/{_machine()}-{secrets.token_hex(4)}"


def host_of(owner: str) -> str:
    """The host of an owner."""
    return owner.split("/", 1)[0]


def is_surely_dead(owner: str) -> bool:
    """Whether the process that holds this lease is known to be gone: only for one that shares our process table.

    Its trainer is gone with it (`child_process`). False means: wait for the end of the lease.
    """
    parts = owner.split("/")
    if len(parts) != 3 or not parts[1].isdecimal() or not _machine() or not parts[2].startswith(f"{_machine()}-"):
        return False
    return not is_alive(int(parts[1]))


def is_alive(pid: int) -> bool:
    """Whether this process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@cache
def _machine() -> str:
    """This boot and process table; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        table = os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {table}".encode()).hexdigest()[:12]
