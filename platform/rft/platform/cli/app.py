"""`rft`: every command is registered here, its work lives elsewhere."""

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from rft.core.open_files import allow_many_open_files
from rft.platform.cli import host_commands
from rft.platform.cli import resource_commands as resources
from rft.platform.cli.answers import Answer
from rft.platform.cli.arguments import ApiKey, BaseUrl
from rft.platform.cli.chat_command import chat
from rft.platform.cli.command import Group
from rft.platform.cli.engine_commands import engine_app
from rft.platform.cli.eval_commands import evals_app
from rft.platform.cli.formats import json_text, printable
from rft.platform.cli.job_commands import jobs_app
from rft.platform.cli.model_check import check_model
from rft.platform.cli.rollout_commands import regrade, rollouts_app

_WORK = "A platform's objects"
_BEFORE = "Before a job"
_HOST = "On the platform's host"

# Tracebacks of ours never show local values: among them are keys.
app = Group("Agent RFT: teach a model to use your tools.", name="rft", pretty_exceptions_show_locals=False)
app.add_typer(resources.files_app, name="files", rich_help_panel=_WORK)
app.add_typer(jobs_app, name="jobs", rich_help_panel=_WORK)
app.add_typer(rollouts_app, name="rollouts", rich_help_panel=_WORK)
app.add("regrade", panel=_WORK)(regrade)
app.add("chat", panel=_WORK)(chat)
app.add("dashboard", panel=_WORK)(resources.print_link)
app.add_typer(resources.tools_app, name="tools", rich_help_panel=_WORK)
app.add_typer(resources.graders_app, name="graders", rich_help_panel=_WORK)
app.add_typer(resources.providers_app, name="providers", rich_help_panel=_WORK)
app.add_typer(resources.models_app, name="models", rich_help_panel=_WORK)
resources.models_app.add_on_host("check")(check_model)
app.add_typer(evals_app, name="evals", rich_help_panel=_WORK)
app.add_typer(resources.permissions_app, name="permissions", rich_help_panel=_WORK)
app.add_typer(resources.rehearsals_app, name="rehearsals", rich_help_panel=_WORK)
app.add_typer(resources.signing_app, name="signing-secrets", rich_help_panel=_WORK)
app.add_typer(host_commands.keys_app, name="keys", rich_help_panel=_HOST)
app.add_typer(host_commands.keys_app, name="key", hidden=True)  # What it was called when it could only create.
app.add_typer(host_commands.secrets_app, name="secrets", rich_help_panel=_HOST)
app.add_typer(engine_app, name="engine", rich_help_panel=_HOST)

app.add_on_host("up", panel=_HOST)(host_commands.up)
app.add_on_host("worker", panel=_HOST)(host_commands.worker)
app.add_on_host("doctor", panel=_HOST)(host_commands.doctor)


def main() -> None:
    """Entry point of the console script."""
    allow_many_open_files()  # Of what `rft up` and `rft worker` start, and of a rehearsal.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # A terminal without our letters shows others, and breaks nothing.
    app()


@app.command()
def version() -> None:
    """Which version this is."""
    _tell_version(True)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(version("agent-rft"))
        raise typer.Exit


@app.callback()
def rft(
    _: Annotated[
        bool, Option("--version", callback=_tell_version, is_eager=True, help="Which version this is.")
    ] = False,
) -> None:
    """Agent RFT: teach a model to use your tools."""


@app.command(rich_help_panel=_BEFORE)
def rehearse(
    job: Annotated[Path, Argument(metavar="JOB.json", help="JSON file with the body of a job's order.")],
    file: Annotated[
        Path | None, Option("--file", help="Dataset (default: the order's training_file, as a path).")
    ] = None,
    remote: Annotated[bool, Option("--remote", help="Let the platform play it, not this machine.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the report as JSON.")] = False,
    calls_per_rollout: Annotated[
        int | None, Option("--calls-per-rollout", min=0, help="Tool calls of each rollout (default: 3).")
    ] = None,
    max_rollouts: Annotated[
        int | None, Option("--max-rollouts", min=1, help="Play at most so many rollouts of the burst.")
    ] = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Play the burst of a job's step at its tools and grader, without a model; 1 when a job would fail."""
    from rft.platform.cli.rehearsals import Wanted, conclude, rehearse_there
    from rft.platform.cli.session import problems_end_command, session

    wanted = Wanted(job, file, calls_per_rollout, max_rollouts)
    if remote:
        with session(base_url, api_key, as_json=as_json) as here:
            raw = rehearse_there(here, wanted)
            conclude(Answer(raw).need("report", dict), raw, as_json=as_json)
    else:
        from rft.platform.cli.rehearse import rehearse_here

        with problems_end_command(as_json=as_json):
            report = rehearse_here(wanted, as_json=as_json)
            conclude(report, report, as_json=as_json)


@app.command(rich_help_panel=_BEFORE)
def validate(
    data: Annotated[Path, Argument(metavar="DATA.jsonl", help="The training file.", exists=True, dir_okay=False)],
    validation: Annotated[
        Path | None, Option("--validation", help="The validation file.", exists=True, dir_okay=False)
    ] = None,
    context_tokens: Annotated[
        int | None, Option("--context-tokens", min=1, help="What the model can read: warn of longer rows.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print a report for programs.")] = False,
) -> None:
    """Check a dataset as a job would; exit status 1 when a job would refuse it."""
    from rft.platform.cli.session import problems_end_command
    from rft.platform.cli.validate import report_lines, validate_files

    with problems_end_command(as_json=as_json):
        validated = validate_files(data, validation, context_tokens=context_tokens)
        report = validated.model_dump(mode="json")
        typer.echo(json_text(report) if as_json else printable("\n".join(report_lines(validated))))
    if not validated.is_usable:
        raise typer.Exit(1)
