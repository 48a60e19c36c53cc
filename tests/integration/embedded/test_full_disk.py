"""`rft up` on a disk that fills up: callers and readers are told in words, and it goes on once there is room."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import APIStatusError, OpenAI

from rft.platform.embedded.home import Home
from rft.platform.embedded.process import descendants
from rft.platform.embedded.supervisor import Supervisor
from rft.platform.settings import settings
from tests.shared.running_platform import RunningPlatform, until
from tests.small_disk import fill_disk, small_disk


@pytest.fixture
def platform(home: Path) -> Iterator[RunningPlatform]:
    with small_disk(home, megabytes=120):
        home.chmod(0o711)  # As `rft up` makes it: root's service user must get through.
        running = RunningPlatform.start(home)
        yield running
        running.end()


def cmdline(pid: int) -> str:
    """Of a process that lives."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def registered(client: OpenAI, number: int) -> object:
    """Stored in the database alone."""
    body = {"name": f"tool-{number}", "server_url": "http://127.0.0.1:9/tool", "description": "x" * 4_000}
    return client.post("/tools", body=body, cast_to=object)


def test_a_full_disk_is_told_by_its_name(platform: RunningPlatform) -> None:
    with platform.client() as client:
        registered(client, 0)
        ballast = fill_disk(platform.home)
        number, refused = 1, None
        while refused is None:  # Until the pages that the tables have are full, too.
            try:
                registered(client, number)
                number += 1
            except APIStatusError as error:
                refused = error
        assert (refused.status_code, refused.code) == (503, "disk_full")
        assert "The disk that holds the database is full" in refused.message
        assert int(refused.response.headers["retry-after"]) > 0
        listed = len(client.get("/tools?limit=100", cast_to=object)["data"])  # pyright: ignore
        assert listed == number, "what was stored can be read"

        old = platform.child("worker")
        os.kill(old.pid, signal.SIGKILL)
        until(lambda: f"the disk that holds {platform.home} is full" in platform.said(), "the words")
        ballast.unlink()
        until(platform.is_healthy, "healthy")
        registered(client, number)
        until(lambda: platform.child("worker") != old, "another worker")

        fill_disk(platform.home)
        assert platform.interrupt() == 0, platform.said()
    assert "Traceback" not in platform.said()


async def test_the_end_on_a_full_disk_is_told_and_leaves_no_sockets(tmp_path: Path) -> None:
    said: list[str] = []
    with small_disk(tmp_path / "home", megabytes=1) as folder:
        home = Home(folder)
        with home.hold():
            sockets = home.socket_dir()
            fill_disk(folder)
            await Supervisor(settings(), home, said.append).stop_all()
        assert said == [f"the home {folder} could not be written: No space left on device"]
        assert not sockets.exists()
        assert [file.name for file in folder.glob("state.json*")] == ["state.json"], "no half a file is left"


def test_a_child_that_cannot_be_remembered_does_not_stay(tmp_path: Path) -> None:
    """It is started again until there is room: none of the earlier ones may live beside the last."""
    with small_disk(tmp_path / "home", megabytes=1) as folder:
        home = Home(folder)
        with home.hold():
            fill_disk(folder)
            with pytest.raises(OSError, match="No space left on device"):
                home.spawn("part", ["sleep", "600"], env=dict(os.environ), death_signal=signal.SIGKILL)
        assert not any("sleep\0600" in cmdline(child.pid) for child in descendants(os.getpid()))
