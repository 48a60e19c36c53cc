"""Children die with us, are told apart from strangers, and homes make what they promise."""

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rft.gateway_service.hosts import is_own_host
from rft.platform.embedded.connection import Connection, publish, read_connection, withdraw
from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.home import Home, write_private
from rft.platform.embedded.postgres import refuse_root
from rft.platform.embedded.process import ProcessId, descendants, end_all, identify, spawn, stop, wait_until
from rft.platform.embedded.programs import child_environment, is_healthy, listen, reachable_address
from rft.platform.embedded.service_user import ServiceUser

SLEEP = "import time; time.sleep(100)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"


def sleeper(log: Path, code: str = SLEEP) -> subprocess.Popen[bytes]:
    return spawn([sys.executable, "-c", code], log=log, env=os.environ, death_signal=signal.SIGKILL)


async def test_stop_asks_then_kills(tmp_path: Path) -> None:
    polite = sleeper(tmp_path / "a")
    assert await stop(polite, [(signal.SIGTERM, 60)]) is False
    assert polite.returncode == -signal.SIGTERM
    deaf = sleeper(tmp_path / "b", DEAF)
    assert await wait_until(lambda: "deaf" in (tmp_path / "b").read_text(), 60)
    assert await stop(deaf, [(signal.SIGTERM, 0.1)]) is True
    assert deaf.wait(60) == -signal.SIGKILL


async def test_strangers_with_a_reused_number_live(tmp_path: Path) -> None:
    child = sleeper(tmp_path / "log")
    known = identify(child.pid)
    assert known is not None
    await end_all([ProcessId(pid=child.pid, started_ticks=known.started_ticks - 1)], signal.SIGKILL, 0.1)
    assert child.poll() is None
    await end_all([known], signal.SIGKILL, 1)
    assert child.wait(60) == -signal.SIGKILL


def test_a_zombie_is_nobody(tmp_path: Path) -> None:
    child = sleeper(tmp_path / "log")
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify(child.pid) is None
    child.wait()


def test_child_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom rft.platform.embedded.process import spawn\n"
        f"child = spawn([sys.executable, '-c', {SLEEP!r}], log=Path({str(tmp_path / 'log')!r}),"
        " env=os.environ, death_signal=signal.SIGTERM)\n"
        "print(child.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert parent.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while identify(int(parent.stdout)) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_descendants_reach_grandchildren(tmp_path: Path) -> None:
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"
    child = sleeper(tmp_path / "log", nested)
    assert await wait_until(lambda: len(descendants(child.pid)) == 1, 60)
    below = descendants(child.pid)
    assert child.pid in {process.pid for process in descendants(os.getpid())}
    await stop(child, [(signal.SIGKILL, 60)])
    await end_all(below, signal.SIGKILL, 60)
    assert identify(below[0].pid) is None


def test_root_alone_is_refused_in_words() -> None:
    with pytest.raises(StartFailed, match="set DATABASE_URL"):
        refuse_root(0, None)
    refuse_root(0, ServiceUser(name="nobody", uid=65534, gid=65534))
    refuse_root(1000, None)


def test_private_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_private(file, "old")
    write_private(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_secret_is_made_once(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with home.hold():
        first = home.secret("postgres")
        assert len(first) >= 40
        assert home.secret("postgres") == first
        assert home.secret("other") != first


def test_home_is_closed_to_the_curious_whatever_the_umask(tmp_path: Path) -> None:
    for mask in (0o000, 0o077):
        before = os.umask(mask)
        try:
            home = Home(tmp_path / f"home{mask}")
            with home.hold():
                expected = 0o711 if os.geteuid() == 0 else 0o700
                assert stat.S_IMODE(home.path.stat().st_mode) == expected
                assert stat.S_IMODE(home.secrets.stat().st_mode) == 0o700
        finally:
            os.umask(before)


def test_connection_comes_and_goes(tmp_path: Path) -> None:
    connection = Connection(base_url="http://a/v1", api_key="k", dashboard_url="http://a/#sign-in=t", pid=1)
    assert read_connection(tmp_path) is None
    publish(tmp_path, connection)
    assert read_connection(tmp_path) == connection
    withdraw(tmp_path)
    withdraw(tmp_path)
    assert read_connection(tmp_path) is None


def test_own_settings_win_over_embedded_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFT_LEASE_TTL_S", "30")
    made = child_environment({"RFT_HOME": "/h"})
    assert made["RFT_LEASE_TTL_S"] == "30"
    assert made["RFT_RECONCILE_S"] == "2"
    assert made["RFT_HOME"] == "/h"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_api_is_asked_for_its_health_by_a_name_that_it_takes_for_its_own(host: str) -> None:
    """Where `RFT_ALLOWED_HOSTS` is set, it answers to no other."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        name = head.partition("\r\nHost: ")[2].partition("\r\n")[0]
        writer.write(b"HTTP/1.1 200 OK\r\n" if is_own_host(name) else b"HTTP/1.1 403 Forbidden\r\n")
        writer.close()

    with listen(host, 0) as listener:
        async with await asyncio.start_server(answer, sock=listener):
            assert await is_healthy(*reachable_address(listener))


def test_on_a_full_disk_logs_grown_large_are_emptied_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.platform.embedded.home._LOG_BYTES", 8)
    home = Home(tmp_path / "home")

    def copy_a_part(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:4])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", copy_a_part)
    with home.hold():
        for name in ("api", "worker"):
            home.log(name).write_text("much of it\n")
        home.cut_logs()
        assert {file.name: file.read_text() for file in home.logs.iterdir()} == {"api.log": "", "worker.log": ""}


async def test_a_log_grown_large_begins_anew_under_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rft.platform.embedded.home._LOG_BYTES", 8)
    home = Home(tmp_path / "home")
    with home.hold():
        talk = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
        reader, writer = os.pipe()
        child = home.spawn(
            "part", [sys.executable, "-c", talk.replace("sys.stdin", f"open({reader})")],
            env=os.environ, death_signal=signal.SIGKILL, pass_fds=[reader],
        )  # fmt: skip
        log = home.log("part")
        os.write(writer, b"much of it\n")
        assert await wait_until(lambda: log.read_text() == "much of it\n", 60)
        home.cut_logs()
        os.write(writer, b"more\n")
        assert await wait_until(lambda: log.read_text() == "more\n", 60)
        home.cut_logs()
        os.close(writer)
        child.wait(60)
        os.close(reader)
        assert (log.read_text(), log.with_suffix(".log.1").read_text()) == ("more\n", "much of it\n")
