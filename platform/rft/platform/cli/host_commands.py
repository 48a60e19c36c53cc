"""`rft keys ...` and `rft secrets ...`: on the platform's host, straight in its database."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli.answers import Answer, Resource
from rft.platform.cli.arguments import HomeOption

if TYPE_CHECKING:
    from rft.platform.cli.host import Host

keys_app = typer.Typer(help="API keys.", no_args_is_help=True)
secrets_app = typer.Typer(
    help="Secrets that calls are signed with, and the key that secrets are sealed with.", no_args_is_help=True
)
_KEY = Resource("key=id; name; state=status; created=created_at; last used=last_used_at", spare="created; state")


@contextmanager
def _host(home: Path | None, *, as_json: bool = False) -> Generator["Host"]:
    """This call's platform; a problem with the database ends the command with status 1 and one line."""
    from rft.platform.cli.host import Host
    from rft.platform.cli.session import chosen_settings, give_up
    from rft.platform.embedded.faults import StartFailed

    try:
        yield Host(chosen_settings(home, as_json=as_json))
    except StartFailed as problem:
        give_up(str(problem), as_json=as_json)


@keys_app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")], home: HomeOption = None
) -> None:
    """Make an API key in the running platform's database and print it, this once."""
    with _host(home) as host:
        typer.echo(host.new_key(name))


@keys_app.command("list")
def list_keys(
    show_all: Annotated[bool, typer.Option("--all", help="Revoked ones too.")] = False,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them for programs.")] = False,
) -> None:
    """API keys, newest first, without their values; when each was last used."""
    with _host(home, as_json=as_json) as host:
        found = [key for key in host.api_keys() if show_all or key.revoked_at is None]
    if as_json:
        typer.echo(json.dumps([key.model_dump(mode="json") for key in found], indent=2, ensure_ascii=False))
    elif not found:
        typer.echo("no keys", err=True)
    else:
        from rft.platform.cli.pages import table
        from rft.platform.cli.session import console

        keys = [
            Answer(
                {
                    "id": key.id,
                    "name": key.name,
                    "status": "active" if key.revoked_at is None else "revoked",
                    "created_at": key.created_at.timestamp(),
                    "last_used_at": None if key.last_used_at is None else key.last_used_at.timestamp(),
                }
            )
            for key in found
        ]
        console().print(table(_KEY, keys, console()))


@keys_app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="ID", help="What `rft keys list` shows; or the key itself.")],
    may_be_last: Annotated[bool, typer.Option("--last", help="Also when no usable key is left then.")] = False,
    home: HomeOption = None,
) -> None:
    """Make a key worthless at once; the sessions made with it end, and so do open streams, within seconds."""
    with _host(home) as host:
        key_id, is_own = host.revoke(key, may_be_last=may_be_last)
    typer.echo(f"{key_id} is revoked")
    if is_own:
        typer.echo(
            "It was this host's own: commands here need RFT_API_KEY until `rft up` starts again and makes a new one.",
            err=True,
        )


@secrets_app.command("show")
def show_secrets(home: HomeOption = None) -> None:
    """Print the active signing secrets, newest first: id, when it was made, value."""
    with _host(home) as host:
        for secret in host.signing_secrets():
            made = datetime.fromtimestamp(secret.created_at, UTC).isoformat(sep=" ", timespec="seconds")
            typer.echo(f"{secret.id}  {made}  {secret.secret}")


@secrets_app.command("rotate")
def rotate_secret(home: HomeOption = None) -> None:
    """Make a new signing secret and print it. The old one stays valid until you retire it."""
    with _host(home) as host:
        made = host.new_signing_secret()
    typer.echo(f"{made.id}  {made.secret}")


@secrets_app.command("retire")
def retire_secret(
    secret_id: Annotated[str, typer.Argument(metavar="ID", help="Which one: sigsec_...")], home: HomeOption = None
) -> None:
    """Sign nothing with this secret any more."""
    with _host(home) as host:
        host.retire_signing_secret(secret_id)
    typer.echo(f"{secret_id} is retired")


@secrets_app.command("rotate-key")
def rotate_key(home: HomeOption = None) -> None:
    """Seal everything at rest with a new key and drop the old one. The platform may go on running."""
    with _host(home) as host:
        done = host.rotate_sealing_key()
    typer.echo(f"a new key is in place; {done.resealed} secrets were sealed with it")
    if done.unreadable:
        typer.echo(f"{done.unreadable} secrets could not be opened with any key; they are as unreadable as before")
