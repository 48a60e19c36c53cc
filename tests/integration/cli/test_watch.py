"""`rft jobs watch` on a job that runs while it is watched."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import termios
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from rft.core.events import RunEnded, RunStarted
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from rft.platform.cli.chart import DOT
from tests.integration.cli.conftest import Run, Shell
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import one_step, whole_run
from tests.shared.waiting import PATIENCE_S

FAILED = RunEnded(outcome="failed", best_step=None, error_code="endpoint_down", error_message="search is down")


async def read_until(condition: Callable[[str], bool], read: Callable[[], str]) -> str:
    """What was read when the condition held."""
    told = ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition(told):
                more = await asyncio.to_thread(read)
                assert more, f"the command ended: {told}"
                told += more
    except TimeoutError as error:
        raise AssertionError(f"it never said so, but {told}") from error
    return told


async def test_lines_tell_a_job_to_its_end(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=3))
    done = await shell.ok("jobs", "watch", run.job_id)
    lines = done.out.splitlines()
    assert any("Step 3/3" in line for line in lines)
    assert "successfully completed" in lines[-3]
    assert lines[-1].startswith("succeeded · step 3/3")
    assert "\x1b" not in done.out


async def test_json_tells_every_message_on_a_line(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=1))
    told = [json.loads(line) for line in (await shell.ok("jobs", "watch", run.job_id, "--json")).out.splitlines()]
    assert [message["data"]["step"] for message in told if message["event"] == "step"] == [0, 1]
    assert told[-1]["data"]["status"] == "succeeded"


async def test_a_failed_job_is_status_1_and_says_why(shell: Shell, run: Run) -> None:
    await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1), FAILED)
    failed = await shell.rft("jobs", "watch", run.job_id)
    assert failed.status == 1
    assert "search is down" in failed.out


async def test_a_cancelled_job_is_status_2(shell: Shell, bench: Workbench) -> None:
    job_id = await bench.queued_job()
    await shell.ok("jobs", "cancel", job_id)
    assert (await shell.rft("jobs", "watch", job_id)).status == 2


async def test_an_unknown_job_is_told_at_once(shell: Shell) -> None:
    done = await shell.rft("jobs", "watch", "ftjob-nowhere")
    assert (done.status, done.out) == (1, "")
    assert "ftjob-nowhere" in done.err


async def test_a_terminal_shows_the_curve_while_the_job_runs(shell: Shell, run: Run) -> None:
    mine, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 200))
    watching = shell.start("jobs", "watch", run.job_id, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)

    def read() -> str:
        try:
            return os.read(mine, 1 << 16).decode("utf-8", "replace")
        except OSError:
            return ""

    try:
        await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1))
        await read_until(lambda told: "no rewards yet" in told and "running" in told, read)
        at_work = RoundProgress(
            step=0, split=Split.VALID, rollouts=128, ended=97, sampling=12, calling={"search": 9}, queued={"search": 4}
        )
        await run.now(RunProgress(activity=Activity.ROLLING_OUT, since=time.time(), round=at_work))
        doing = "97 of 128 rollouts ended, 12 sampling, 9 in `search` (4 queued)"
        await read_until(lambda told: doing in told, read)
        for step in range(3):
            await run.tell(*one_step(run.job_id, step, 3, rollouts=3))
        shown = await read_until(lambda told: DOT in told and "step 2/3" in told and "excluded 25.0%" in told, read)
        assert any("\u2801" <= letter <= "\u28ff" for letter in shown)
        await run.tell(*one_step(run.job_id, 3, 3, rollouts=3), RunEnded(outcome="succeeded", best_step=3))
        await read_until(lambda told: "succeeded" in told, read)
        while await asyncio.to_thread(read):
            pass
        assert await asyncio.to_thread(watching.wait, PATIENCE_S) == 0
    finally:
        watching.kill()
        watching.wait()
        os.close(mine)


async def test_ctrl_c_ends_the_watching_cleanly(shell: Shell, run: Run) -> None:
    await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1))
    watching = shell.start("jobs", "watch", run.job_id, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert watching.stdout is not None
    try:
        await read_until(lambda told: "state running" in told, watching.stdout.readline)
        watching.send_signal(signal.SIGINT)
        _, err = await asyncio.to_thread(watching.communicate, timeout=PATIENCE_S)
    finally:
        watching.kill()
        watching.wait()
    assert watching.returncode == 130
    assert "no longer watching" in err
    assert "Traceback" not in err
    assert (await shell.ok("jobs", "get", run.job_id, "--json")).json["status"] == "running"


async def test_a_line_that_is_cut_is_taken_up_where_it_was(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=3))
    platform = urlsplit(shell.environment["RFT_BASE_URL"])
    budgets = iter((1, 4000, 9000))
    lines = 0

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lines
        lines += 1
        left = next(budgets, None)
        api_reader, api_writer = await asyncio.open_connection(platform.hostname, platform.port)
        try:
            api_writer.write(await reader.readuntil(b"\r\n\r\n"))
            while chunk := await api_reader.read(500 if left is None else min(500, left)):
                writer.write(chunk)
                await writer.drain()
                if left is not None and (left := left - len(chunk)) == 0:
                    break
        finally:
            writer.transport.abort() if left == 0 else writer.close()
            api_writer.close()

    async def forward_whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One that is told to the test: a server that is closed in Python 3.11 waits for none."""
        forwarding = asyncio.create_task(forward(reader, writer))
        under_way.append(forwarding)
        await asyncio.gather(forwarding, return_exceptions=True)

    under_way: list[asyncio.Task[None]] = []
    async with await asyncio.start_server(forward_whole, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        refused = await shell.rft("jobs", "watch", run.job_id, "--base-url", f"http://127.0.0.1:{port}/v1")
        assert refused.status == 1, "a platform that was never heard is not waited for"
        done = await shell.ok("jobs", "watch", run.job_id, "--base-url", f"http://127.0.0.1:{port}/v1")
        for forwarding in under_way:
            forwarding.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    assert lines == 4
    told = [line for line in done.out.splitlines() if "Step " in line]
    assert [line.split("Step ")[1][0] for line in told] == ["0", "1", "2", "3"]
    assert "trying again" in done.out
    assert done.out.splitlines()[-1].startswith("succeeded")
