"""`rft`: every command is registered here, its work lives elsewhere."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="rft", help="Agent RFT: teach a model to use your tools.", no_args_is_help=True, add_completion=False
)
keys = typer.Typer(help="API keys.", no_args_is_help=True)
app.add_typer(keys, name="key")

HomeOption = Annotated[Path | None, typer.Option("--home", help="Data directory (default: RFT_HOME).")]
HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on (default: 127.0.0.1).")]
PortOption = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="Port (default: 8787); 0: a free one.")
]


def main() -> None:
    """Entry point of the console script."""
    app()


@app.command()
def version() -> None:
    """Which version this is."""
    typer.echo(version_of("agent-rft"))


@app.command()
def up(home: HomeOption = None, port: PortOption = None, host: HostOption = None) -> None:
    """Start the platform on this machine; Ctrl-C stops it."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.embedded.faults import StartFailed
    from rft.platform.embedded.supervisor import run_platform

    try:
        run_platform(chosen_settings(home, host, port), say=typer.echo)
    except StartFailed as problem:
        _give_up(problem)


@app.command()
def doctor(home: HomeOption = None, port: PortOption = None, host: HostOption = None) -> None:
    """Tell what is wrong with this machine."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.doctor import Level, examine

    colours = {Level.OK: typer.colors.GREEN, Level.WARN: typer.colors.YELLOW, Level.ERROR: typer.colors.RED}
    findings = examine(chosen_settings(home, host, port))
    for finding in findings:
        typer.echo(f"{typer.style(f'{finding.level:<5}', fg=colours[finding.level])}  {finding.what}")
        if finding.what_to_do:
            typer.echo(f"       {finding.what_to_do}")
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="Who or what the key is for.")], home: HomeOption = None
) -> None:
    """Make an API key in the running platform's database and print it, this once."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.keys import new_key
    from rft.platform.embedded.faults import StartFailed

    try:
        typer.echo(new_key(chosen_settings(home), name))
    except StartFailed as problem:
        _give_up(problem)


def _give_up(problem: Exception) -> None:
    typer.echo(f"rft: {problem}", err=True)
    sys.exit(1)
