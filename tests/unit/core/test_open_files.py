"""A process may open as many files as the system lets it."""

import os
import resource
import subprocess
import sys

import pytest

from rft.core.open_files import ENOUGH

SHOWN = (
    "from resource import RLIMIT_NOFILE, getrlimit; from rft.core.open_files import allow_many_open_files as allow;"
    " allow(); print(*getrlimit(RLIMIT_NOFILE))"
)


@pytest.mark.parametrize(("soft", "hard"), [(100, 300), (300, 300)])
def test_the_limit_is_raised_to_what_the_system_allows(soft: int, hard: int) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    shown = subprocess.run(
        [sys.executable, "-c", SHOWN], preexec_fn=limited, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["300", "300"]


def test_no_more_than_enough_is_taken() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, check=True)
    assert 0 < int(shown.stdout.split()[0]) <= max(ENOUGH, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    assert int(shown.stdout.split()[1]) == hard


@pytest.mark.lengthy
def test_a_worker_that_is_started_by_hand_has_as_many() -> None:
    """Not through `rft`, which raises the limit of all that it starts."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))

    started = (
        "from resource import RLIMIT_NOFILE, getrlimit; from rft.platform.embedded import worker_process as started;"
        " started.celery_main = lambda: print(*getrlimit(RLIMIT_NOFILE)); started.main()"
    )
    servers = {"DATABASE_URL": "postgresql://x@127.0.0.1:1/x", "BROKER_URL": "redis://127.0.0.1:1/0"}
    shown = subprocess.run(
        [sys.executable, "-c", started], preexec_fn=limited, env={**os.environ, **servers},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout.split() == ["300", "300"]
