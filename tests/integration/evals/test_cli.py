"""Evals, runs, output items and comparisons are read from a terminal."""

import asyncio
import json

from typer.testing import CliRunner

from rft.platform.cli.app import app
from tests.integration.evals.stage import Stage, inline, row


async def rft(stage: Stage, *arguments: str) -> str:
    """What `rft evals ...` prints on a wide terminal, beside the test's loop."""
    environment = {"RFT_BASE_URL": stage.url, "RFT_API_KEY": stage.key, "COLUMNS": "240"}
    result = await asyncio.to_thread(CliRunner().invoke, app, ["evals", *arguments], env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout


async def test_an_eval_is_read_with_its_runs_and_their_items(stage: Stage) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, inline(row("7", "7"), row("8", "9"), row("5", None)))
    other = await stage.run(eval_id, inline(row("7", "8"), row("4", "4")))
    assert eval_id in await rft(stage, "list")
    assert "exact" in await rft(stage, "get", eval_id)
    listed = await rft(stage, "runs", eval_id)
    assert listed.index(other.id) < listed.index(run.id)
    shown = await rft(stage, "run", eval_id, run.id)
    assert "1 of 3" in shown
    assert "50.0%" in shown
    assert "sample_missing: 1" in shown
    items = await rft(stage, "items", eval_id, run.id)
    assert [word in items for word in ("pass", "fail", "error")] == [True] * 3
    [failed] = json.loads(await rft(stage, "items", eval_id, run.id, "--status", "fail", "--json"))
    assert failed["datasource_item_id"] == 1
    compared = await rft(stage, "compare", eval_id, run.id, other.id)
    assert "1 better, 0 worse, 0 same" in compared
    assert await rft(stage, "delete", eval_id) == f"{eval_id} is deleted\n"
