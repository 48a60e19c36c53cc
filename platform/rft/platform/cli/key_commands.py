"""`rft keys ...`: API keys, straight in the platform's database. For the platform's host."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from rft.platform.embedded.faults import StartFailed

keys_app = typer.Typer(help="API keys.", no_args_is_help=True)

HomeOption = Annotated[Path | None, typer.Option("--home", help="Data directory (default: RFT_HOME).")]


@keys_app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")], home: HomeOption = None
) -> None:
    """Make an API key in the running platform's database and print it, this once."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.keys import new_key
    from rft.platform.embedded.faults import StartFailed

    try:
        typer.echo(new_key(chosen_settings(home), name))
    except StartFailed as problem:
        _give_up(problem)


@keys_app.command("list")
def list_keys(
    show_all: Annotated[bool, typer.Option("--all", help="Revoked ones too.")] = False,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them for programs.")] = False,
) -> None:
    """API keys, newest first, without their values; when each was last used."""
    from rft.platform.cli.access_pages import key_table
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.keys import all_keys
    from rft.platform.cli.session import console
    from rft.platform.embedded.faults import StartFailed

    try:
        found = [key for key in all_keys(chosen_settings(home, as_json=as_json)) if show_all or key.revoked_at is None]
    except StartFailed as problem:
        _give_up(problem, as_json=as_json)
    if as_json:
        typer.echo(json.dumps([key.model_dump(mode="json") for key in found], indent=2, ensure_ascii=False))
    elif found:
        console().print(key_table(found))
    else:
        typer.echo("no keys", err=True)


@keys_app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="ID", help="What `rft keys list` shows; or the key itself.")],
    may_be_last: Annotated[bool, typer.Option("--last", help="Also when no usable key is left then.")] = False,
    home: HomeOption = None,
) -> None:
    """Make a key worthless at once; the sessions made with it end, and so do open streams, within seconds."""
    from rft.platform.cli.chosen import chosen_settings
    from rft.platform.cli.keys import revoke
    from rft.platform.embedded.faults import StartFailed

    try:
        revoked = revoke(chosen_settings(home), key, may_be_last=may_be_last)
    except StartFailed as problem:
        _give_up(problem)
    typer.echo(f"{revoked.key_id} is revoked")
    if revoked.is_own:
        typer.echo(
            "It was this host's own: commands here need RFT_API_KEY until `rft up` starts again and makes a new one.",
            err=True,
        )


def _give_up(problem: "StartFailed", *, as_json: bool = False) -> NoReturn:
    from rft.platform.cli.session import give_up

    give_up(str(problem), as_json=as_json)
