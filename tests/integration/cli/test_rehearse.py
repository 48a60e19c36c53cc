"""`rft rehearse --remote`: ordered from here, played by the platform."""

import asyncio
import json

from rft.platform.worker.run_rehearsal import run_rehearsal
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.cli.conftest import Done, Shell
from tests.integration.rehearsals.stage import job, line
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import until


async def rehearsed(bench: Workbench, shell: Shell, *arguments: object) -> Done:
    """The command, with a worker that gets the message once."""
    known = {row["id"] for row in await bench.all("select id from rehearsals")}
    command = asyncio.create_task(shell.rft("rehearse", *arguments))
    new: list[str] = []

    async def is_ordered() -> bool:
        new[:] = [row["id"] for row in await bench.all("select id from rehearsals") if row["id"] not in known]
        return bool(new) or command.done()

    await until(is_ordered, "the rehearsal to be ordered")
    for rehearsal_id in new:
        await run_rehearsal(rehearsal_id, bench.context())
    return await command


async def test_the_platform_plays_and_the_report_is_told(
    shell: Shell, bench: Workbench, customer: LoopbackEndpoint
) -> None:
    body = shell.write("job.json", {**job(customer), "a_field_of_tomorrow": 1})
    rows = shell.put("rows.jsonl", b"".join(json.dumps(line(number)).encode() + b"\n" for number in range(5)))
    done = await rehearsed(bench, shell, body, "--file", rows, "--remote", "--max-rollouts", 4)
    assert done.status == 0, done.err
    assert "tool search" in done.out
    assert "warning: these fields are not known here and have no effect: a_field_of_tomorrow" in done.err
    raw = await rehearsed(bench, shell, body, "--file", rows, "--remote", "--max-rollouts", 4, "--json")
    assert (raw.json["status"], raw.json["report"]["rollouts"]) == ("completed", 4)
    assert raw.json["unknown_fields"] == ["a_field_of_tomorrow"]


async def test_a_refused_order_is_told_in_one_line(shell: Shell, bench: Workbench, customer: LoopbackEndpoint) -> None:
    body = shell.write("job.json", {**job(customer), "training_file": "file-nowhere"})
    done = await rehearsed(bench, shell, body, "--remote")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "training_file" in done.err
