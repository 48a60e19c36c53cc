"""`rft rehearsals ...`, and what Ctrl-C does to a rehearsal that the platform plays."""

import asyncio
import json
import signal
import subprocess

from rft.platform.worker.run_rehearsal import run_rehearsal
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.cli.conftest import Shell
from tests.integration.rehearsals.stage import job, line
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import PATIENCE_S, until


async def write_order(shell: Shell, customer: LoopbackEndpoint) -> str:
    """The name of a job's order whose rows are uploaded."""
    rows = shell.put("rows.jsonl", b"".join(json.dumps(line(number)).encode() + b"\n" for number in range(5)))
    file_id = (await shell.ok("files", "upload", rows, "--json")).json["id"]
    return shell.write("job.json", {**job(customer), "training_file": file_id})


async def ordered(shell: Shell, bench: Workbench, body: str) -> tuple[str, subprocess.Popen[str]]:
    """A rehearsal that nobody plays, and the command that waits for it."""
    known = {row["id"] for row in await bench.all("select id from rehearsals")}
    waiting = shell.start("rehearse", body, "--remote", cwd=shell.folder, stderr=subprocess.PIPE)
    new: list[str] = []

    async def is_ordered() -> bool:
        new[:] = [row["id"] for row in await bench.all("select id from rehearsals") if row["id"] not in known]
        return bool(new) or waiting.poll() is not None

    await until(is_ordered, "the rehearsal to be ordered")
    assert new, await end(waiting)
    return new[0], waiting


async def end(waiting: subprocess.Popen[str]) -> str:
    """What the command said on the error stream until its end."""
    try:
        _, err = await asyncio.to_thread(waiting.communicate, timeout=PATIENCE_S)
        return err
    finally:
        waiting.kill()
        waiting.wait()


async def test_past_rehearsals_are_listed_and_shown(shell: Shell, bench: Workbench, customer: LoopbackEndpoint) -> None:
    assert (await shell.ok("rehearsals", "list")).err == "no rehearsals\n"
    rehearsal_id, waiting = await ordered(shell, bench, await write_order(shell, customer))
    assert "queued" in (await shell.ok("rehearsals", "get", rehearsal_id)).out
    assert await run_rehearsal(rehearsal_id, bench.context()) == "completed"
    await end(waiting)
    assert waiting.returncode == 0
    listed = (await shell.ok("rehearsals", "list")).out
    assert rehearsal_id in listed
    assert "completed" in listed
    shown = (await shell.ok("rehearsals", "get", rehearsal_id)).out
    assert "completed" in shown
    assert "tool search" in shown
    assert "What to do" in shown
    raw = (await shell.ok("rehearsals", "get", rehearsal_id, "--json")).json
    assert raw["report"]["excluded_rollouts"] == 0
    assert (await shell.ok("rehearsals", "list", "--json")).json == [raw]
    over = await shell.rft("rehearsals", "cancel", rehearsal_id)
    assert (over.status, "can no longer be cancelled" in over.err) == (1, True)
    lost = await shell.rft("rehearsals", "get", "rehearsal-none")
    assert (lost.status, lost.err.count("\n")) == (1, 1)


async def test_who_waits_for_a_cancelled_rehearsal_is_told(
    shell: Shell, bench: Workbench, customer: LoopbackEndpoint
) -> None:
    body = await write_order(shell, customer)
    rehearsal_id, waiting = await ordered(shell, bench, body)
    assert (await shell.ok("rehearsals", "cancel", rehearsal_id)).out == f"{rehearsal_id}: cancelled\n"
    assert f"{rehearsal_id} was cancelled" in await end(waiting)
    assert waiting.returncode == 1
    another, waiting = await ordered(shell, bench, body)
    assert (await shell.ok("rehearsals", "cancel", another, "--json")).json["status"] == "cancelled"
    await end(waiting)


async def test_ctrl_c_cancels_the_rehearsal(shell: Shell, bench: Workbench, customer: LoopbackEndpoint) -> None:
    rehearsal_id, waiting = await ordered(shell, bench, await write_order(shell, customer))
    assert waiting.stderr is not None
    told = await asyncio.wait_for(asyncio.to_thread(waiting.stderr.readline), PATIENCE_S)
    assert told == f"{rehearsal_id} is ordered; Ctrl-C cancels it\n"
    waiting.send_signal(signal.SIGINT)
    err = await end(waiting)
    assert waiting.returncode == 130
    assert f"{rehearsal_id}: cancelled" in err
    assert "Traceback" not in err
    assert (await shell.ok("rehearsals", "get", rehearsal_id, "--json")).json["status"] == "cancelled"
