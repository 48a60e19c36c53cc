"""Under root, servers run as an ordinary user: who that is, and what it can reach."""

import os
import pwd
import subprocess
from pathlib import Path

from rft.core.base import Record

CANDIDATES = ("rft", "postgres", "nobody")


class ServiceUser(Record):
    """An existing account without rights that root hands its servers to."""

    name: str
    uid: int
    gid: int

    def can(self, script: str, *arguments: str | Path) -> bool:
        """Whether a line of shell succeeds for this user (the truth, with access lists and read-only mounts in it)."""
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", script, "sh", *map(str, arguments)],
                user=self.uid,
                group=self.gid,
                extra_groups=[],
                cwd="/",
                capture_output=True,
            )
        except OSError:
            return False
        return done.returncode == 0

    def can_enter(self, folder: Path) -> bool:
        """Whether the user may go through `folder`."""
        return self.can('cd -- "$1"', folder)

    def can_run(self, binary: Path) -> bool:
        """Whether the user may execute `binary`, its libraries included."""
        return self.can('"$1" --version', binary)


def choose_service_user() -> ServiceUser | None:
    """The account to run servers as. None for an ordinary user (they run as ourselves) and where only root exists."""
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        user = ServiceUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
        if user.uid != 0 and user.can("true"):
            return user
    return None
