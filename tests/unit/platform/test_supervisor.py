"""What keeps the parts of `rft up` alive, on a disk that takes nothing more."""

import asyncio
import errno
import subprocess
from pathlib import Path

import pytest

from rft.platform.embedded import home as home_module
from rft.platform.embedded import supervisor
from rft.platform.embedded.home import Home
from rft.platform.embedded.supervisor import Supervisor
from rft.platform.settings import Settings


class DeadPart:
    """Has ended, and is started again."""

    name = "worker"
    process: subprocess.Popen[bytes] | None = None

    def __init__(self) -> None:
        self.is_started = asyncio.Event()

    async def start(self) -> None:
        self.is_started.set()
        await asyncio.Event().wait()

    async def stop(self) -> None: ...


async def test_a_full_disk_is_told_where_no_server_is_ours_and_the_platform_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Database and queue are the operator's: the home has never looked for a place for servers."""

    def full(file: Path, text: str, *, is_durable: bool = False) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    def has_nothing_left(folder: Path) -> bool:
        return folder == tmp_path

    monkeypatch.setattr(home_module, "write_private", full)
    monkeypatch.setattr(supervisor, "has_nothing_left", has_nothing_left)
    said, part = list[str](), DeadPart()
    settings = Settings.model_validate(
        {"DATABASE_URL": "postgresql://x/y", "BROKER_URL": "redis://x", "home": tmp_path}
    )
    kept = asyncio.create_task(Supervisor(settings, Home(tmp_path), said.append).keep_alive(part))
    started = asyncio.create_task(part.is_started.wait())
    await asyncio.wait((kept, started), timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert (kept.done(), started.done()) == (False, True)
    assert said[1:] == [f"the disk that holds {tmp_path} is full; all goes on by itself once there is room"]
    kept.cancel()
