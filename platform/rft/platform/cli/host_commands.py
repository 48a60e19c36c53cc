"""`rft keys ...` and `rft secrets ...`: on the platform's host, straight in its database."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from rft.platform.cli.answers import Answer, Resource
from rft.platform.cli.arguments import HomeOption

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow

    from rft.platform.settings import Settings
    from rft.platform.store.secret_box import SecretBox

T = TypeVar("T")
Connection: TypeAlias = "AsyncConnection[TupleRow]"
keys_app = typer.Typer(help="API keys.", no_args_is_help=True)
secrets_app = typer.Typer(
    help="Secrets that calls are signed with, and the key that secrets are sealed with.", no_args_is_help=True
)
_KEY = Resource("key=id; name; state=status; created=created_at; last used=last_used_at", spare="created; state")


def _in_database(home: Path | None, work: "Callable[[Connection], Awaitable[T]]", *, as_json: bool = False) -> T:
    """What came of work in the platform's database; a problem with it ends the command with status 1 and one line."""
    import asyncio

    import psycopg

    from rft.platform.cli.session import chosen_settings, give_up

    url = _database_url(chosen_settings(home, as_json=as_json), as_json=as_json)

    async def in_transaction() -> T:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            return await work(connection)

    try:
        return asyncio.run(in_transaction())
    except psycopg.Error as problem:
        give_up(f"the database cannot be used: {problem}", as_json=as_json)


def _with_secrets(home: Path | None, work: "Callable[[Connection, SecretBox], Awaitable[T]]") -> T:
    """The same with what opens the secrets in it."""
    from rft.platform.api.errors import ApiError
    from rft.platform.cli.session import chosen_settings, give_up
    from rft.platform.store.key_file import KeyFileUnusable
    from rft.platform.store.secret_box import KEY_FILE, SecretBox, SecretsUnreadable

    try:
        return _in_database(home, lambda connection: work(connection, SecretBox(chosen_settings(home).home / KEY_FILE)))
    except ApiError as problem:
        give_up(problem.message)
    except (OSError, KeyFileUnusable, SecretsUnreadable) as problem:
        give_up(f"the secrets cannot be read: {problem}")


def _database_url(settings: "Settings", *, as_json: bool = False) -> str:
    from rft.platform.cli.session import give_up
    from rft.platform.embedded.faults import StartFailed
    from rft.platform.embedded.home import Home
    from rft.platform.embedded.postgres import EmbeddedPostgres

    if settings.database_url is not None:
        return settings.database_url
    home = Home(settings.home)
    try:
        if home.is_serving():
            return EmbeddedPostgres(home).url()
    except StartFailed as problem:
        give_up(str(problem), as_json=as_json)
    give_up(f"the platform of {home.path} is not running: start it with `rft up`", as_json=as_json)


@keys_app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")], home: HomeOption = None
) -> None:
    """Make an API key in the running platform's database and print it, this once."""
    from rft.platform.api.key_repository import create_key

    typer.echo(_in_database(home, lambda connection: create_key(connection, name)))


@keys_app.command("list")
def list_keys(
    show_all: Annotated[bool, typer.Option("--all", help="Revoked ones too.")] = False,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them for programs.")] = False,
) -> None:
    """API keys, newest first, without their values; when each was last used."""
    from rft.platform.api.key_repository import list_keys
    from rft.platform.cli.pages import table
    from rft.platform.cli.session import console

    keys = _in_database(home, list_keys, as_json=as_json)
    found = [key for key in keys if show_all or key.revoked_at is None]
    if as_json:
        typer.echo(json.dumps([key.model_dump(mode="json") for key in found], indent=2, ensure_ascii=False))
    elif not found:
        typer.echo("no keys", err=True)
    else:
        answers = [
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
        console().print(table(_KEY, answers, console()))


@keys_app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="ID", help="What `rft keys list` shows; or the key itself.")],
    may_be_last: Annotated[bool, typer.Option("--last", help="Also when no usable key is left then.")] = False,
    home: HomeOption = None,
) -> None:
    """Make a key worthless at once; the sessions made with it end, and so do open streams, within seconds."""
    from rft.platform.api.key_repository import LastKey, id_of, revoke_key
    from rft.platform.cli.session import chosen_settings, give_up
    from rft.platform.embedded.supervisor import own_key

    key_id = id_of(key) or key.removeprefix("rft_")
    try:
        is_known = _in_database(home, lambda connection: revoke_key(connection, key_id, may_be_last=may_be_last))
    except LastKey:
        give_up(f"{key_id} is the only usable key: make another first (`rft keys create NAME`), or say --last")
    if not is_known:
        # Not what was typed: it may be most of a key.
        give_up(f"there is no key '{key_id[:12]}': `rft keys list` shows them")
    typer.echo(f"{key_id} is revoked")
    if id_of(own_key(chosen_settings(home).home)) == key_id:
        typer.echo(
            "It was this host's own: commands here need RFT_API_KEY until `rft up` starts again and makes a new one.",
            err=True,
        )


@secrets_app.command("show")
def show_secrets(home: HomeOption = None) -> None:
    """Print the active signing secrets, newest first: id, when it was made, value."""
    from rft.platform.signing.service import active_with_ids

    for secret in _with_secrets(home, active_with_ids):
        made = datetime.fromtimestamp(secret.created_at, UTC).isoformat(sep=" ", timespec="seconds")
        typer.echo(f"{secret.id}  {made}  {secret.secret}")


@secrets_app.command("rotate")
def rotate_secret(home: HomeOption = None) -> None:
    """Make a new signing secret and print it. The old one stays valid until you retire it."""
    from rft.platform.signing import service
    from rft.platform.signing.schemas import NewSigningSecret

    async def rotate(connection: "Connection", box: "SecretBox") -> NewSigningSecret:
        await service.active_secrets(connection, box)  # Sealed with another home's key, the new one would be lost.
        return await service.rotate(connection, box)

    made = _with_secrets(home, rotate)
    typer.echo(f"{made.id}  {made.secret}")


@secrets_app.command("retire")
def retire_secret(
    secret_id: Annotated[str, typer.Argument(metavar="ID", help="Which one: sigsec_...")], home: HomeOption = None
) -> None:
    """Sign nothing with this secret any more."""
    from rft.platform.signing.service import retire

    _with_secrets(home, lambda connection, _: retire(connection, secret_id))
    typer.echo(f"{secret_id} is retired")


@secrets_app.command("rotate-key")
def rotate_key(home: HomeOption = None) -> None:
    """Seal everything at rest with a new key and drop the old one. The platform may go on running."""
    import psycopg

    from rft.platform.cli.session import chosen_settings, give_up
    from rft.platform.store.key_file import KeyFileUnusable
    from rft.platform.store.key_rotation import RotationRunning, rotate_key
    from rft.platform.store.secret_box import KEY_FILE

    settings = chosen_settings(home)
    try:
        done = rotate_key(settings.home / KEY_FILE, _database_url(settings))
    except psycopg.Error as problem:
        give_up(f"the database cannot be used: {problem}")
    except (OSError, KeyFileUnusable, RotationRunning) as problem:
        give_up(f"the key was not rotated: {problem}")
    typer.echo(f"a new key is in place; {done.resealed} secrets were sealed with it")
    if done.unreadable:
        typer.echo(f"{done.unreadable} secrets could not be opened with any key; they are as unreadable as before")
