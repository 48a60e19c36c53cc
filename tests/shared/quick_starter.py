"""A starter trained just long enough to call tools, and asked for nothing more: built once in a run of the tests.

`quick_starter.py CACHE DIRECTORY` stands in for the builder of a platform.
"""

import fcntl
import os
import shutil
import sys
from pathlib import Path

import pytest

from rft.starter.builder import Plan, build_starter
from rft.starter.gate import Gate
from rft.starter.warmup import Schedule

PLAN = Plan(
    schedule=Schedule(copy_steps=10, skill_steps=40, habit_steps=10),
    gate=Gate(accuracy=0, reward_low=0, reward_high=1),
    traces=8,
    rollouts=8,
)


def cache_of(folders: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run of the tests share, and no other run does."""
    own = folders.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def command(cache: Path) -> list[str]:
    """For `RFT_STARTER_COMMAND`."""
    return [sys.executable, __file__, str(cache)]


def give_quick_starter(cache: Path, directory: Path) -> None:
    """Put it into a directory that is not there yet."""
    with (cache / "quick_starter.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (built := cache / "quick_starter").exists():
            build_starter(built, seed=1, plan=PLAN)
    shutil.copytree(built, directory)


if __name__ == "__main__":
    give_quick_starter(*map(Path, sys.argv[1:]))
