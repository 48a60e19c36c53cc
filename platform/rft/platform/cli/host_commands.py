"""`rft up`, `doctor`, `worker`, `keys ...` and `secrets ...`: on the platform's host, some straight in its database."""

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer
from typer import Argument, Option

from rft.platform.cli.answers import Answer, Resource
from rft.platform.cli.command import Group
from rft.platform.cli.formats import json_text
from rft.platform.cli.inputs import CannotDo

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow

    from rft.platform.api.key_repository import KeyRow
    from rft.platform.settings import Settings
    from rft.platform.signing.schemas import NewSigningSecret
    from rft.platform.store.secret_box import SecretBox

T = TypeVar("T")
Connection: TypeAlias = "AsyncConnection[TupleRow]"
_Port = Annotated[int | None, Option("--port", min=0, max=65535, help="Port (default: 8787); 0: a free one.")]
_Host = Annotated[str | None, Option("--host", help="Address to listen on (default: 127.0.0.1).")]
_KEY = Resource("key=id; name; state=status; created=created_at; last used=last_used_at", spare="created; state")
keys_app = Group("API keys.")
secrets_app = Group("Secrets that calls are signed with, and the key that secrets are sealed with.")


class WorkerQueue(StrEnum):
    """What a worker takes from."""

    ROLLOUTS = "rollouts"


def up(settings: "Settings", port: _Port = None, host: _Host = None) -> None:
    """Start the platform on this machine; Ctrl-C stops it."""
    from rft.platform.embedded.supervisor import run_platform
    from rft.platform.settings import settings_warnings

    for warning in settings_warnings():
        typer.echo(f"warning: {warning}", err=True)
    # Anything but a terminal keeps what is printed: a service's goes to a journal that others read.
    run_platform(_listening_at(settings, host, port), say=typer.echo, tells_credentials=sys.stdout.isatty())


def doctor(settings: "Settings", port: _Port = None, host: _Host = None) -> None:
    """Tell what is wrong with this machine."""
    from rft.platform.cli.doctor import Level, examine

    colours = {Level.OK: typer.colors.GREEN, Level.WARN: typer.colors.YELLOW, Level.ERROR: typer.colors.RED}
    findings = examine(_listening_at(settings, host, port))
    for finding in findings:
        typer.echo(f"{typer.style(f'{finding.level:<5}', fg=colours[finding.level])}  {finding.what}")
        if finding.what_to_do:
            typer.echo(f"       {finding.what_to_do}")
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)


def _listening_at(settings: "Settings", host: str | None, port: int | None) -> "Settings":
    said = {"host": host, "port": port}
    return settings.model_copy(update={name: value for name, value in said.items() if value is not None})


def worker(
    settings: "Settings",
    queue: Annotated[WorkerQueue, Option("--queue", help="What to work on.")] = WorkerQueue.ROLLOUTS,
    processes: Annotated[int, Option("--processes", min=1, help="Processes on this host.")] = 1,
) -> None:
    """Run rollouts for the jobs of a platform, on any host that reaches it; Ctrl-C stops it.

    Needs BROKER_URL, RFT_GATEWAY_TOKEN and RFT_VLLM_API_KEY as the platform has them, and the base models' tokenizers
    under the paths that they have there.
    """
    import logging

    from rft.platform.embedded.home import Home
    from rft.platform.embedded.valkey import EmbeddedValkey
    from rft.platform.worker.rollout_processes import RolloutProcesses

    del queue
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    broker_url = settings.broker_url
    if broker_url is None:
        here = Home(settings.home)
        if not here.is_serving():
            raise CannotDo(f"BROKER_URL is not set, and no platform runs in {here.path} whose queue this could be")
        broker_url = EmbeddedValkey(here).url()
    RolloutProcesses(settings, broker_url, processes).run()


def _in_database(settings: "Settings", work: "Callable[[Connection], Awaitable[T]]") -> T:
    """What came of work in the platform's database. Raises CannotDo."""
    import asyncio

    import psycopg

    from rft.platform.store.database import with_timeouts

    url = _database_url(settings)

    async def in_transaction() -> T:
        async with await psycopg.AsyncConnection.connect(with_timeouts(url)) as connection:
            return await work(connection)

    try:
        return asyncio.run(in_transaction())
    except psycopg.Error as problem:
        raise CannotDo(f"the database cannot be used: {problem}") from problem


def _with_secrets(settings: "Settings", work: "Callable[[Connection, SecretBox], Awaitable[T]]") -> T:
    """The same with what opens the secrets in it."""
    from rft.platform.store.key_file import KeyFileUnusable
    from rft.platform.store.secret_box import KEY_FILE, SecretBox, SecretsUnreadable

    try:
        return _in_database(settings, lambda connection: work(connection, SecretBox(settings.home / KEY_FILE)))
    except (OSError, KeyFileUnusable, SecretsUnreadable) as problem:
        raise CannotDo(f"the secrets cannot be read: {problem}") from problem


def _database_url(settings: "Settings") -> str:
    from rft.platform.embedded.connection import read_connection
    from rft.platform.embedded.home import Home
    from rft.platform.embedded.postgres import EmbeddedPostgres

    if settings.database_url is not None:
        return settings.database_url
    home = Home(settings.home)
    is_serving = home.is_serving()
    if read_connection(settings.home) is not None and not (
        is_serving and EmbeddedPostgres.name in home.state().children
    ):
        raise CannotDo(f"the platform of {home.path} has a database of its own: set DATABASE_URL as it has it")
    if not is_serving:
        raise CannotDo(f"the platform of {home.path} is not running: start it with `rft up`")
    return EmbeddedPostgres(home).url()


@keys_app.add_on_host("create")
def create_key(
    settings: "Settings", name: Annotated[str, Argument(metavar="NAME", help="Who or what the key is for.")]
) -> None:
    """Make an API key in the running platform's database and print it, this once."""
    from rft.platform.api.key_repository import create_key

    if not name.strip():
        raise CannotDo("a key needs a name: it tells later what the key is for")
    typer.echo(_in_database(settings, lambda connection: create_key(connection, name)))


@keys_app.add_on_host("list")
def list_keys(
    settings: "Settings",
    show_all: Annotated[bool, Option("--all", help="Revoked ones too.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print them for programs.")] = False,
) -> None:
    """API keys, newest first, without their values; when each was last used."""
    from rft.platform.api.key_repository import list_keys
    from rft.platform.cli.pages import table
    from rft.platform.cli.session import console

    found = [key for key in _in_database(settings, list_keys) if show_all or key.revoked_at is None]
    if as_json:
        typer.echo(json_text([key.model_dump(mode="json") for key in found]))
    elif not found:
        typer.echo("no keys", err=True)
    else:
        console().print(table(_KEY, map(_to_answer, found), console()))


def _to_answer(key: "KeyRow") -> Answer:
    used = None if key.last_used_at is None else key.last_used_at.timestamp()
    status = "active" if key.revoked_at is None else "revoked"
    shown = {"id": key.id, "name": key.name, "status": status}
    return Answer({**shown, "created_at": key.created_at.timestamp(), "last_used_at": used})


@keys_app.add_on_host("revoke")
def revoke_key(
    settings: "Settings",
    key: Annotated[str, Argument(metavar="ID", help="What `rft keys list` shows; or the key itself.")],
    may_be_last: Annotated[bool, Option("--last", help="Also when no usable key is left then.")] = False,
) -> None:
    """Make a key worthless at once; the sessions made with it end, and so do open streams, within seconds."""
    from rft.platform.api.key_repository import LastKey, id_of, revoke_key
    from rft.platform.embedded.supervisor import own_key

    key_id = id_of(key) or key.removeprefix("rft_")
    try:
        is_known = _in_database(settings, lambda connection: revoke_key(connection, key_id, may_be_last=may_be_last))
    except LastKey as problem:
        raise CannotDo(
            f"{key_id} is the only usable key: make another first (`rft keys create NAME`), or say --last"
        ) from problem
    if not is_known:
        # Not what was typed: it may be most of a key.
        raise CannotDo(f"there is no key '{key_id[:12]}': `rft keys list` shows them")
    typer.echo(f"{key_id} is revoked")
    if id_of(own_key(settings.home)) == key_id:
        typer.echo(
            "It was this host's own: commands here need RFT_API_KEY until `rft up` starts again and makes a new one.",
            err=True,
        )


@secrets_app.add_on_host("show")
def show_secrets(settings: "Settings") -> None:
    """Print the active signing secrets, newest first: id, when it was made, value."""
    from rft.platform.signing.service import active_with_ids

    for secret in _with_secrets(settings, active_with_ids):
        made = datetime.fromtimestamp(secret.created_at, UTC).isoformat(sep=" ", timespec="seconds")
        typer.echo(f"{secret.id}  {made}  {secret.secret}")


@secrets_app.add_on_host("rotate")
def rotate_secret(settings: "Settings") -> None:
    """Make a new signing secret and print it. The old one stays valid until you retire it."""
    from rft.platform.signing import service

    async def rotate(connection: "Connection", box: "SecretBox") -> "NewSigningSecret":
        await service.active_secrets(connection, box)  # Sealed with another home's key, the new one would be lost.
        return await service.rotate(connection, box)

    made = _with_secrets(settings, rotate)
    typer.echo(f"{made.id}  {made.secret}")


@secrets_app.add_on_host("retire")
def retire_secret(
    settings: "Settings", secret_id: Annotated[str, Argument(metavar="ID", help="Which one: sigsec_...")]
) -> None:
    """Sign nothing with this secret any more."""
    from rft.platform.signing.service import retire

    _with_secrets(settings, lambda connection, _: retire(connection, secret_id))
    typer.echo(f"{secret_id} is retired")


@secrets_app.add_on_host("rotate-key")
def rotate_key(settings: "Settings") -> None:
    """Seal everything at rest with a new key; the old one goes at the next time. The platform may go on running."""
    import psycopg

    from rft.platform.store.key_file import KeyFileUnusable
    from rft.platform.store.key_rotation import RotationRunning, rotate_key
    from rft.platform.store.secret_box import KEY_FILE

    url = _database_url(settings)
    try:
        done = rotate_key(settings.home / KEY_FILE, url)
    except psycopg.Error as problem:
        raise CannotDo(f"the database cannot be used: {problem}") from problem
    except (OSError, KeyFileUnusable, RotationRunning) as problem:
        raise CannotDo(f"the key was not rotated: {problem}") from problem
    typer.echo(f"a new key is in place; {done.resealed} secrets were sealed with it")
    if done.unreadable:
        typer.echo(f"{done.unreadable} secrets could not be opened with any key; they are as unreadable as before")
