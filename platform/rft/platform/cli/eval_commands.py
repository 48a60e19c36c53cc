"""The commands of evals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rft.platform.cli import eval_resources as resources
from rft.platform.cli.arguments import EvalId, EvalRunId, only
from rft.platform.cli.command import Group
from rft.platform.cli.inputs import part

if TYPE_CHECKING:
    from rft.platform.cli.session import Session

evals_app = Group("Evals: what models answer, judged by testing criteria.")


@evals_app.add("import")
def import_evals(
    here: "Session",
    export: Annotated[Path, Argument(metavar="DIR|ZIP", help="What examples/evals_export.py wrote.", exists=True)],
    model: Annotated[
        str | None,
        Option("--model", help="Let this model of the platform answer anew (default: judge what was recorded)."),
    ] = None,
    partial: Annotated[
        bool, Option("--partial", help="Carry evals over without the testing criteria that are refused here.")
    ] = False,
    incomplete: Annotated[bool, Option("--incomplete", help="Take an export that lacks something.")] = False,
    wait: Annotated[bool, Option("--wait/--no-wait", help="Wait for the runs and compare them.")] = True,
) -> None:
    """Carry evals of the hosted service over and run them here; 1 when something could not be carried over."""
    from rft.platform.cli.evals_import.export import open_export
    from rft.platform.cli.evals_import.importing import Import
    from rft.platform.cli.evals_import.report import show, to_report

    with open_export(export, may_be_incomplete=incomplete) as opened:
        done = Import(here, opened, model, partial)
        done.carry()
        if wait and any(carried.runs for carried in done.evals):
            here.note("waiting for the runs; after Ctrl-C, the same command goes on")
            done.wait()
    report = to_report(done)
    if here.as_json:
        here.print_json(report)
    else:
        show(report, here.out)
    if done.left_out:
        raise typer.Exit(1)


_EVAL = "/evals/{eval_id}"
_RUNS = f"{_EVAL}/runs"
_RUN = f"{_RUNS}/{{run_id}}"
evals_app.add_list("list", "Evals, newest first.", "/evals", resources.EVAL, order="desc")
evals_app.add_get("get", "One eval.", _EVAL, resources.EVAL)
evals_app.add_delete("delete", "Delete an eval with its runs.", _EVAL, "{eval_id} is deleted")
evals_app.add_list("runs", "An eval's runs, newest first.", _RUNS, resources.EVAL_RUN, order="desc")
evals_app.add_get("run", "One run with its figures.", _RUN, resources.EVAL_RUN)
evals_app.add_post("cancel", "Break a run off; finished items are kept.", f"{_RUN}/cancel", "{id}: {status}")
evals_app.add_list(
    "items",
    "What became of a run's items, in their order.",
    f"{_RUN}/output_items",
    resources.OUTPUT_ITEM,
    filters={"status": only("--status", "Only pass, fail or error.")},
)


@evals_app.add("compare")
def compare_runs(
    here: "Session",
    eval_id: EvalId,
    run_id: EvalRunId,
    other: Annotated[str, Argument(metavar="OTHER", help="The run that it is compared with.")],
) -> None:
    """A run against another one of the same eval, item by item."""
    path = f"/evals/{part(eval_id)}/runs/{part(run_id)}/compare"
    here.show(here.client.get(path, {"with": other}), resources.COMPARISON)
