"""Child processes: what they may see, how they end, what is shown of their words."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from rft.platform.child_process import child_environment, exit_message, launch, log_tail
from rft.platform.lifecycle.owner import is_alive
from rft.platform.store.storable import storable_json, storable_text
from rft.platform.worker.job_run import backoff_s
from tests.shared.waiting import until


def test_the_environment_of_a_child_holds_no_address_and_no_key() -> None:
    seen = child_environment(
        {
            "PATH": "/bin",
            "DATABASE_URL": "postgresql://u:p@h/d",
            "RFT_BROKER_URL": "redis://:p@h",
            "RFT_API_KEY": "rft_x",
            "RFT_TORCH_THREADS": "2",
            "HF_TOKEN": "theirs",
            "HF_HUB_OFFLINE": "0",
        }
    )
    assert seen == {
        "PATH": "/bin",
        "RFT_TORCH_THREADS": "2",
        "HF_TOKEN": "theirs",
        "HF_HUB_OFFLINE": "0",
        "OMP_WAIT_POLICY": "PASSIVE",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
    }


async def test_a_child_gets_its_input_once_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = await launch([sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1])"], log=log, stdin=b"abc")
    assert await child.wait(120)
    assert (child.returncode, log.read_text()) == (0, "cba\n")


async def test_a_child_that_reads_nothing_is_no_error(tmp_path: Path) -> None:
    child = await launch(["true"], log=tmp_path / "log", stdin=b"x" * 10_000_000)
    assert await child.wait(120)
    assert child.returncode == 0


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_child_that_is_dead_before_it_is_fed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Coroutine[Any, Any, int | None]], int | None]
) -> None:
    start: Any = asyncio.create_subprocess_exec

    async def start_and_wait(*command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **options)
        await process.wait()
        return process

    async def launched() -> int | None:
        return (await launch(["true"], log=tmp_path / "log", stdin=b"x")).returncode

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_wait)
    assert run(launched()) == 0


@pytest.mark.parametrize(
    ("trap", "grace_s", "ended_by"), [("", 60.0, signal.SIGTERM), ("trap '' TERM;", 0.5, signal.SIGKILL)]
)
async def test_stopping_asks_first_and_reaches_the_whole_group(
    tmp_path: Path, trap: str, grace_s: float, ended_by: signal.Signals
) -> None:
    log = tmp_path / "log"
    script = f"{trap} sleep 600 & echo $! $$; wait; wait; wait"
    child = await launch(["sh", "-c", script], log=log)
    while not log.read_text().endswith("\n"):
        assert not await child.wait(0.02)
    grandchild = int(log.read_text().split()[0])
    await child.stop(grace_s=grace_s)
    assert child.returncode == -ended_by
    await until(lambda: not is_alive(grandchild), "the grandchild to be gone")
    await child.stop(grace_s=grace_s)


def test_endings_are_told_in_words() -> None:
    assert exit_message(3) == "exited with status 3"
    assert exit_message(-9) == "was killed by SIGKILL; perhaps it ran out of memory"
    assert exit_message(-15) == "was killed by SIGTERM"


def test_the_end_of_a_log_is_shown_without_secrets(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" * 50 + b"token abc-secret and abc\xff\x00\nlast")
    tail = log_tail(log, hide=["abc", "abc-secret", ""], lines=2)
    assert tail == "token ********** and **********\ufffd\nlast"
    assert log_tail(tmp_path / "none") == ""


def test_launches_without_progress_wait_longer_and_longer() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 4)] == [0.0, 0.5, 1.0, 2.0]
    assert backoff_s(100) == 30.0


def test_nul_is_made_storable_and_nothing_else_is_touched() -> None:
    assert storable_text("a\x00b") == "a\ufffdb"
    assert storable_json(r'{"a":"\u0000 \\u0000 \\\u0000 x"}') == r'{"a":"\ufffd \\u0000 \\\ufffd x"}'
