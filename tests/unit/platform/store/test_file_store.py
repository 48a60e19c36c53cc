"""Stored bytes are on the disk, and not only on their way to it, once it is said so."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rft.platform.store.file_store import BytesNotStored, LocalFileStore


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"x" * (1 << 20)


async def test_stored_bytes_and_their_name_outlive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, sync = list[tuple[Path, bool]](), os.fsync

    def told(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), (tmp_path / "file-a").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", told)
    assert await LocalFileStore(tmp_path).put("file-a", chunks()) == 3 << 20
    assert synced == [(tmp_path / "file-a", True), (tmp_path, True)]


async def test_bytes_that_the_disk_does_not_take_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        del descriptor
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BytesNotStored, match="Disk quota exceeded"):
        await LocalFileStore(tmp_path).put("file-a", chunks())
