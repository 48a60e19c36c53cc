"""A server of our own ends with whoever started it, and with everything that it has started itself."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from rft.vllm_server.process import ServerKeepsDying, ServerProcess
from tests.shared.waiting import is_gone, until

SERVER = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}\\n")
time.sleep(3600)
"""
SOCKET = """
import os, pathlib
(pathlib.Path(os.environ["VLLM_RPC_BASE_PATH"]) / "socket").touch()
"""
TRAINER = """
import sys, time
from pathlib import Path
from rft.vllm_server.process import ServerProcess
process = ServerProcess([sys.executable, "-c", sys.argv[1], sys.argv[2]], {}, Path(sys.argv[2] + ".log"))
process.ensure_running()
time.sleep(3600)
"""


async def processes(told: Path) -> list[int]:
    """The server, and the process that it has started."""
    await until(lambda: len(pids(told)) == 2, "the server runs")
    return pids(told)


def pids(told: Path) -> list[int]:
    text = told.read_text() if told.exists() else ""
    return [int(pid) for pid in text.split()] if text.endswith("\n") else []


async def test_nothing_is_left_of_it_when_its_trainer_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    trainer = await asyncio.create_subprocess_exec(sys.executable, "-c", TRAINER, SERVER, str(told))
    started = await processes(told)
    trainer.kill()
    await trainer.wait()
    await until(lambda: all(map(is_gone, started)), "server and engine are gone")


async def test_nothing_is_left_when_the_server_is_killed_and_it_is_started_again_a_few_times(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    process = ServerProcess([sys.executable, "-c", SERVER, str(told)], {}, tmp_path / "log")
    for _ in range(3):
        told.unlink(missing_ok=True)
        process.ensure_running()
        process.ensure_running()
        server, engine = await processes(told)
        os.kill(server, signal.SIGKILL)
        await until(lambda engine=engine: is_gone(engine), "the engine is gone with its server")
        pid = process.pid
        assert pid is not None
        await until(lambda pid=pid: is_gone(pid), "its group is gone")
    with pytest.raises(ServerKeepsDying, match="the server ended with status -9"):
        process.ensure_running()
    process.stop()


async def test_it_is_stopped_and_stays_so(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    process = ServerProcess([sys.executable, "-c", SERVER, str(told)], {}, tmp_path / "log")
    process.ensure_running()
    started = await processes(told)
    process.stop()
    await until(lambda: all(map(is_gone, started)), "server and engine are gone")
    process.stop()
    process.ensure_running()
    assert process.pid is not None
    assert is_gone(process.pid)


async def test_sockets_that_a_server_leaves_behind_are_removed_with_it_or_by_the_next_one(tmp_path: Path) -> None:
    told, folder = tmp_path / "pids", tmp_path / "tmp"
    folder.mkdir()
    command = [sys.executable, "-c", SOCKET + SERVER, str(told)]
    process = ServerProcess(command, {"TMPDIR": str(folder)}, tmp_path / "log")
    process.ensure_running()
    await processes(told)
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)
    (left,) = await asyncio.to_thread(lambda: list(folder.glob("*/socket")))
    told.unlink()
    await until(lambda: process.pid is not None and is_gone(process.pid), "the group is gone")
    process.ensure_running()
    await processes(told)
    (new,) = await asyncio.to_thread(lambda: list(folder.glob("*/socket")))
    assert new != left
    process.stop()
    assert not list(folder.iterdir())
