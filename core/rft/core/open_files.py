"""How many files and connections a process may have open at once."""

import sys
from contextlib import suppress

ENOUGH = 65_536


def allow_many_open_files() -> None:
    """Raise this process's limit, and that of those it starts, to what the system lets it have.

    Shells and services begin with 1024 of it on most systems, which a burst of calls to two endpoints is beyond.
    """
    if sys.platform == "win32":
        return
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit

    soft, hard = getrlimit(RLIMIT_NOFILE)
    wanted = ENOUGH if hard == RLIM_INFINITY else min(ENOUGH, hard)
    if soft != RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # Some systems refuse what they say they allow.
            setrlimit(RLIMIT_NOFILE, (wanted, hard))
