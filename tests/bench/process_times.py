"""Processor time of the processes that a bench started, by what they do."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
ROLES = {
    "--gateway tool": "tool_gateway",
    "--gateway grader": "grader_gateway",
    "--fakes": "fakes",
    "api_process": "api",
    "rft.trainer.rollout_worker": "workers",
    "valkey-server": "broker",
    "postgres": "postgres",
}
"""By what their command lines hold; the first that fits."""


def times_by_role() -> dict[str, float]:
    """Seconds so far of our children and theirs, ended ones of those that still live included."""
    seconds = dict.fromkeys(ROLES.values(), 0.0)
    for pid, command in _descendants(os.getpid()):
        role = next((role for part, role in ROLES.items() if part in command), None)
        if role is not None:
            seconds[role] += _seconds(pid)
    return seconds


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Between two looks."""
    return {role: after[role] - seconds for role, seconds in before.items()}


def _descendants(root: int) -> Iterator[tuple[int, str]]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (stat := _stat(int(entry.name))) is not None:
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, ())
        try:
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def _seconds(pid: int) -> float:
    """Its own, and those of children that it has waited for."""
    stat = _stat(pid)
    return 0.0 if stat is None else sum(map(int, stat[11:15])) / _TICKS


def _stat(pid: int) -> list[str] | None:
    """The fields after the name: state, parent, and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
