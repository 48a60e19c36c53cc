"""The commands of evals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli import eval_resources as resources
from rft.platform.cli.arguments import After, EvalId, EvalRunId, Limit
from rft.platform.cli.command import Group
from rft.platform.cli.inputs import part

if TYPE_CHECKING:
    from rft.platform.cli.session import Session

evals_app = Group("Evals: what models answer, judged by testing criteria.")


@evals_app.add("import")
def import_evals(
    here: "Session",
    export: Annotated[
        Path, typer.Argument(metavar="DIR|ZIP", help="What examples/evals_export.py wrote.", exists=True)
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", help="Let this model of the platform answer anew (default: judge what was recorded)."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Carry evals over without the testing criteria that are refused here.")
    ] = False,
    incomplete: Annotated[bool, typer.Option("--incomplete", help="Take an export that lacks something.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the runs and compare them.")] = True,
) -> None:
    """Carry evals of the hosted service over and run them here; 1 when something could not be carried over."""
    from rft.platform.cli.evals_import.export import open_export
    from rft.platform.cli.evals_import.importing import Import
    from rft.platform.cli.evals_import.report import show, to_report

    with open_export(export, may_be_incomplete=incomplete) as opened:
        done = Import(here, opened, model, partial)
        done.carry()
        if wait:
            done.wait()
    report = to_report(done)
    if here.as_json:
        here.print_json(report)
    else:
        show(report, here.out)
    if done.left_out:
        raise typer.Exit(1)


_NEWEST_FIRST = {"order": "desc"}
_EVAL = "/evals/{eval_id}"
_RUN = f"{_EVAL}/runs/{{run_id}}"


@evals_app.add("list")
def list_evals(here: "Session", limit: Limit = 20, after: After = None) -> None:
    """Evals, newest first."""
    here.show_all(here.client.listed("/evals", _NEWEST_FIRST, limit=limit, after=after), resources.EVAL)


evals_app.add_get("get", "One eval.", _EVAL, resources.EVAL)
evals_app.add_delete("delete", "Delete an eval with its runs.", _EVAL, "{eval_id} is deleted")


@evals_app.add("runs")
def list_runs(here: "Session", eval_id: EvalId, limit: Limit = 20, after: After = None) -> None:
    """An eval's runs, newest first."""
    path = f"/evals/{part(eval_id)}/runs"
    here.show_all(here.client.listed(path, _NEWEST_FIRST, limit=limit, after=after), resources.EVAL_RUN)


evals_app.add_get("run", "One run with its figures.", _RUN, resources.EVAL_RUN)
evals_app.add_post("cancel", "Break a run off; finished items are kept.", f"{_RUN}/cancel", "{id}: {status}")
evals_app.add_list(
    "items",
    "What became of a run's items, in their order.",
    f"{_RUN}/output_items",
    resources.OUTPUT_ITEM,
    filters={"status": Annotated[str | None, typer.Option("--status", help="Only pass, fail or error.")]},
)


@evals_app.add("compare")
def compare_runs(
    here: "Session",
    eval_id: EvalId,
    run_id: EvalRunId,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The run that it is compared with.")],
) -> None:
    """A run against another one of the same eval, item by item."""
    path = f"/evals/{part(eval_id)}/runs/{part(run_id)}/compare"
    here.show(here.client.get(path, {"with": other}), resources.COMPARISON)
