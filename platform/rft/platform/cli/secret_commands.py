"""`rft secrets ...`: signing secrets, and the key that secrets at rest are sealed with. For the platform's host."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

T = TypeVar("T")

secrets_app = typer.Typer(
    help="Secrets that calls are signed with, and the key that secrets are sealed with.", no_args_is_help=True
)

HomeOption = Annotated[Path | None, typer.Option("--home", help="Data directory (default: RFT_HOME).")]


@secrets_app.command("show")
def show(home: HomeOption = None) -> None:
    """Print the active signing secrets, newest first: id, when it was made, value."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.host_secrets import active

    for secret in _or_give_up(lambda: active(chosen_settings(home))):
        typer.echo(f"{secret.id}  {_date(secret.created_at)}  {secret.secret}")


@secrets_app.command("rotate")
def rotate(home: HomeOption = None) -> None:
    """Make a new signing secret and print it. The old one stays valid until you retire it."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.host_secrets import new_signing_secret

    made = _or_give_up(lambda: new_signing_secret(chosen_settings(home)))
    typer.echo(f"{made.id}  {made.secret}")


@secrets_app.command("retire")
def retire(
    secret_id: Annotated[str, typer.Argument(metavar="ID", help="Which one: sigsec_...")], home: HomeOption = None
) -> None:
    """Sign nothing with this secret any more."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.host_secrets import retire_signing_secret

    _or_give_up(lambda: retire_signing_secret(chosen_settings(home), secret_id))
    typer.echo(f"{secret_id} is retired")


@secrets_app.command("rotate-key")
def rotate_sealing_key(home: HomeOption = None) -> None:
    """Seal everything at rest with a new key and drop the old one. The platform may go on running."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.host_secrets import rotate_sealing_key

    done = _or_give_up(lambda: rotate_sealing_key(chosen_settings(home)))
    typer.echo(f"a new key is in place; {done.resealed} secrets were sealed with it")
    if done.unreadable:
        typer.echo(f"{done.unreadable} secrets could not be opened with any key; they are as unreadable as before")


def _or_give_up(work: Callable[[], T]) -> T:
    from rft.platform.embedded.faults import StartFailed

    try:
        return work()
    except StartFailed as problem:
        typer.echo(f"rft: {problem}", err=True)
        sys.exit(1)


def _date(unix_s: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(unix_s, UTC).isoformat(sep=" ", timespec="seconds")
