"""`rft evals import`: evals of the hosted service go on here, with their runs graded anew; what cannot is named."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rft.platform.cli.app import app
from rft.platform.queue.messages import RUN_EVAL, TaskMessage
from tests.integration.evals.exported import CUSTOM, EXACT, UUID, Exported, a_run, an_eval, an_item
from tests.integration.evals.stage import Stage, inline, row
from tests.shared.running_api import collect

EXPORTER = Path(__file__).parents[3] / "examples" / "evals_export.py"
ITEMS = [an_item(0, "7", "7"), an_item(1, "8", "9"), an_item(2, "5", "5")]
SAMPLED: dict[str, Any] = {
    "type": "completions",
    "model": "hosted-1",
    "source": {"type": "file_id", "id": "file-gone"},
    "input_messages": {"type": "template", "template": [{"role": "user", "content": "{{item.question}}"}]},
}
CLOSENESS: dict[str, Any] = {
    "type": "text_similarity",
    "name": "closeness",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "evaluation_metric": "cosine",
    "pass_threshold": 0.8,
}


@pytest.fixture
def export(tmp_path: Path) -> Exported:
    return Exported(tmp_path / "exported")


async def rft(stage: Stage, *arguments: object) -> Result:
    """`rft evals import` beside the test's loop."""
    environment = {"RFT_BASE_URL": stage.url, "RFT_API_KEY": stage.key}
    command = ["evals", "import", *map(str, arguments)]
    result = await asyncio.to_thread(CliRunner().invoke, app, command, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


async def imported(stage: Stage, *arguments: object, code: int = 0) -> dict[str, Any]:
    """The report once all runs that were made have been worked on."""
    before = len(stage.messages.received)
    first = await rft(stage, *arguments, "--no-wait", "--json")
    assert first.exit_code == code, first.output
    for message in stage.messages.received[before:]:
        assert message == TaskMessage(RUN_EVAL, message.job_id)
        await stage.work(message.job_id)
    again = await rft(stage, *arguments, "--json")
    report = json.loads(again.stdout)
    made = [*report["evals"], *(run for one in report["evals"] for run in one["runs"])]
    assert not any(one["is_new"] for one in made), "carried over twice"
    return report | {"left_out": json.loads(first.stdout)["left_out"]}


async def test_recorded_samples_are_judged_here_and_set_beside_what_was_said_there(
    stage: Stage, export: Exported
) -> None:
    export.add_eval(an_eval(1))
    export.add_run(a_run(1, SAMPLED, passed=2, failed=1), ITEMS)
    export.add_run(a_run(2, inline(row("7", "7"), row("7", "8")), passed=1, failed=1), ITEMS[:1])
    report = await imported(stage, export.close())
    [evaluation] = report["evals"]
    assert (evaluation["imported_from"], evaluation["name"], report["left_out"]) == ("eval_1", "Arithmetic 1", [])
    told = [
        (run["imported_from"], run["imported_as"], run["status"], run["errored"], run["criteria"])
        for run in evaluation["runs"]
    ]
    both = {"passed": 2, "graded": 3}
    half = {"passed": 1, "graded": 2}
    assert told == [
        ("evalrun_1", "recorded", "completed", 0, [{"name": "exact", "there": both, "here": both}]),
        ("evalrun_2", "recorded", "completed", 0, [{"name": "exact", "there": half, "here": half}]),
    ]
    here = await stage.client.evals.retrieve(evaluation["id"])
    assert here.metadata == {"team": "a", "imported_from": "eval_1"}
    items = await collect(stage.items(evaluation["id"], evaluation["runs"][0]["id"]))
    assert [item.datasource_item for item in items] == [item["datasource_item"] for item in ITEMS]
    assert [item.sample.output[0].content for item in items] == ["7", "9", "5"]
    recorded = [(item["sample"]["input"], item["sample"]["finish_reason"]) for item in ITEMS]
    assert [(item.to_dict()["sample"]["input"], item.sample.finish_reason) for item in items] == recorded


async def test_a_file_of_the_export_is_the_file_of_the_run(stage: Stage, export: Exported) -> None:
    lines = [json.dumps(row("7", "7")), json.dumps(row("8", "8")), json.dumps(row("1", "2"))]
    source = {"type": "jsonl", "source": {"type": "file_id", "id": "file-1"}}
    export.add_eval(an_eval(1))
    export.add_file("file-1", "\n".join(lines).encode())
    export.add_run(a_run(1, source, passed=2, failed=1), ITEMS)
    export.add_run(a_run(2, source, passed=2, failed=1), ITEMS)
    report = await imported(stage, export.close())
    runs = report["evals"][0]["runs"]
    assert [run["criteria"][0]["here"] for run in runs] == [{"passed": 2, "graded": 3}] * 2
    files = await collect(stage.client.files.list(purpose="evals"))
    assert [file.filename for file in files] == ["rows.jsonl"]


@pytest.mark.parametrize("name", ["..", "/", "行" * 90 + ".jsonl"])
async def test_a_file_whose_name_no_disk_takes_is_carried_over_by_its_id(
    stage: Stage, export: Exported, name: str
) -> None:
    run = a_run(1, {"type": "jsonl", "source": {"type": "file_id", "id": "file-1"}}, passed=1, failed=0)
    export.add_eval(an_eval(1))
    export.add_run(run, ITEMS)
    export.add_file("file-1", json.dumps(row("7", "7")).encode(), name=name)
    await imported(stage, export.close())
    files = await collect(stage.client.files.list(purpose="evals"))
    assert [file.filename for file in files] == ["file-1.jsonl"]


async def test_runs_over_stored_samples_bring_what_was_recorded(stage: Stage, export: Exported) -> None:
    logs = {"type": "logs", "metadata": {"usecase": "sums"}, "schema": CUSTOM["schema"]}
    export.add_eval(an_eval(1, config=logs))
    source = {"type": "responses", "source": {"type": "responses", "model": "hosted-1"}}
    export.add_run(a_run(1, source, passed=1, failed=1), [*ITEMS[:2], an_item(3, "4", None)])
    report = await imported(stage, export.close(), code=1)
    [run] = report["evals"][0]["runs"]
    assert run["criteria"][0]["here"] == {"passed": 1, "graded": 2}
    assert report["left_out"] == [{"what": "1 item of run evalrun_1 (run 1)", "why": "its sampling failed: slow down"}]


async def test_an_interrupted_import_goes_on(stage: Stage, export: Exported) -> None:
    export.add_eval(an_eval(1))
    export.add_run(a_run(1, SAMPLED, passed=2, failed=1), ITEMS)
    await rft(stage, export.close(), "--no-wait")
    export.add_run(a_run(2, SAMPLED, passed=2, failed=1), ITEMS)
    export.add_eval(an_eval(2))
    second = await rft(stage, export.close(), "--no-wait", "--json")
    told = json.loads(second.stdout)["evals"]
    assert [(one["is_new"], [run["is_new"] for run in one["runs"]]) for one in told] == [
        (False, [False, True]),
        (True, []),
    ]
    assert len(await collect(stage.client.evals.list())) == 2


async def test_a_criterion_that_is_not_had_here_is_named_and_left_out_only_when_asked(
    stage: Stage, export: Exported
) -> None:
    export.add_eval(an_eval(1, CLOSENESS, EXACT))
    export.add_run(a_run(1, SAMPLED, passed=2, failed=1), ITEMS)
    export.add_eval(an_eval(2))
    refused = await rft(stage, export.close(), "--no-wait", "--json")
    report = json.loads(refused.stdout)
    assert (refused.exit_code, [one["imported_from"] for one in report["evals"]]) == (1, ["eval_2"])
    [left] = report["left_out"]
    assert left["what"] == "eval eval_1 (Arithmetic 1)"
    assert "testing_criteria[0]" in left["why"]
    assert "--partial" in left["why"]
    partial = await imported(stage, export.root, "--partial", code=1)
    assert [one["imported_from"] for one in partial["evals"]] == ["eval_1", "eval_2"]
    assert [one["what"] for one in partial["left_out"]] == [
        "testing criterion 'closeness' of eval eval_1 (Arithmetic 1)"
    ]
    here = await stage.client.evals.retrieve(partial["evals"][0]["id"])
    assert [criterion.name for criterion in here.testing_criteria] == ["exact"]


@pytest.mark.parametrize("is_partial", [False, True])
async def test_criteria_of_one_name_are_each_set_beside_their_own_figures(
    stage: Stage, export: Exported, is_partial: bool
) -> None:
    """The service tells them apart by the ids behind their names; one that is refused has no figures here."""
    ids = [f"exact-{UUID[:-1]}{end}" for end in "bcd"]
    other = {**EXACT, "id": ids[0], "name": ids[0], "operation": "ne"}
    refused = {**CLOSENESS, "id": ids[1], "name": ids[1]}
    third = {**EXACT, "id": ids[2], "name": ids[2], "reference": "9"}
    criteria = [EXACT, *([refused] if is_partial else []), other, third]
    figures = {EXACT["name"]: (2, 1), ids[0]: (1, 2), ids[1]: (3, 0), ids[2]: (1, 2)}
    results = [
        {"testing_criteria": one["name"], "passed": figures[one["name"]][0], "failed": figures[one["name"]][1]}
        for one in reversed(criteria)
    ]
    export.add_eval(an_eval(1, *criteria))
    export.add_run(a_run(1, SAMPLED, passed=0, failed=3, per_testing_criteria_results=results), ITEMS)
    options, code = (["--partial"], 1) if is_partial else ([], 0)
    report = await imported(stage, export.close(), *options, code=code)
    told = report["evals"][0]["runs"][0]["criteria"]
    assert [one["name"] for one in told] == ["exact"] * len(criteria)
    here = [None if one is refused else {"passed": figures[one["name"]][0], "graded": 3} for one in reversed(criteria)]
    assert [one["here"] for one in told] == here


async def test_a_refused_run_leaves_no_file_and_keeps_none_from_the_others(stage: Stage, export: Exported) -> None:
    export.add_eval(an_eval(1))
    export.add_run(a_run(1, SAMPLED, passed=0, failed=0), [])
    export.add_run(a_run(2, SAMPLED, passed=2, failed=1), ITEMS)
    export.add_gone("eval_9")
    result = await rft(stage, export.close(), "--model", "no-such-model", "--no-wait", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["evals"][0]["runs"]) == (1, [])
    assert [(left["what"], left["why"][:30]) for left in report["left_out"]] == [
        ("run evalrun_1 (run 1)", "there is nothing to grade: the"),
        ("run evalrun_2 (run 2)", "The model 'no-such-model' does"),
        ("eval eval_9", "404 no such eval"),
    ]
    assert await collect(stage.client.files.list(purpose="evals")) == []


async def test_what_the_export_took_for_deleted_is_named_although_some_of_it_came(
    stage: Stage, export: Exported
) -> None:
    export.add_eval(an_eval(1))
    export.add_run(a_run(1, SAMPLED, passed=2, failed=1), ITEMS)
    export.add_run(a_run(2, SAMPLED, passed=2, failed=1), ITEMS)
    export.note_gone("evalrun_1")
    report = await imported(stage, export.close(), code=1)
    assert [run["imported_from"] for run in report["evals"][0]["runs"]] == ["evalrun_1", "evalrun_2"]
    [left] = report["left_out"]
    assert left["what"] == "run evalrun_1 (run 1)"
    assert "took it for deleted" in left["why"]


async def test_a_broken_export_creates_nothing(stage: Stage, export: Exported) -> None:
    export.add_eval(an_eval(1))
    export.add_run(a_run(1, SAMPLED, passed=2, failed=1), ITEMS)
    folder = export.close()
    (folder / "items" / "evalrun_1.jsonl").write_text("{}\n")
    result = await rft(stage, folder)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "items/evalrun_1.jsonl" in result.stderr
    assert await collect(stage.client.evals.list()) == []


async def test_people_read_a_table_and_what_was_left_out(stage: Stage, export: Exported) -> None:
    export.add_eval(an_eval(1))
    export.add_run(a_run(1, SAMPLED, passed=3, failed=0), ITEMS)
    await imported(stage, export.close())
    result = await rft(stage, export.root)
    assert result.exit_code == 0
    assert "eval_1 -> eval_" in result.stdout
    assert "(was here)" in result.stdout
    assert "3 of 3" in result.stdout
    assert "2 of 3" in result.stdout


async def test_what_this_platform_exports_it_takes_back(stage: Stage, tmp_path: Path) -> None:
    """The exporter asks any service of this contract; a zip of what it wrote is an export, too."""
    eval_id = await stage.make()
    first = await stage.run(eval_id, inline(row("7", "7"), row("7", "8")))
    lines = "\n".join(json.dumps(row(answer, answer)) for answer in "123")
    second = await stage.run(eval_id, await stage.upload(lines))
    folder = tmp_path / "ours"
    command = [sys.executable, str(EXPORTER), str(folder), "--base-url", stage.url]
    environment = {**os.environ, "OPENAI_API_KEY": stage.key}
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "ours")
    report = await imported(stage, packed)
    [evaluation] = report["evals"]
    assert evaluation["imported_from"] == eval_id
    assert {run["imported_from"] for run in evaluation["runs"]} == {first.id, second.id}
    for run in evaluation["runs"]:
        [criterion] = run["criteria"]
        assert criterion["here"] == criterion["there"]
    assert report["left_out"] == []
