"""The commands of evals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli.command import Group

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
