"""`rft files ...`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli.answers import Answer
from rft.platform.cli.command import command, delete_command, get_command, list_command
from rft.platform.cli.options import FileId, Force, Output
from rft.platform.cli.resources import BAD_LINE, FILE

if TYPE_CHECKING:
    from rft.platform.cli.session import Session

files_app = typer.Typer(help="Files: datasets to train on, results to read.", no_args_is_help=True)
_FILE = "/files/{file_id}"


@command(files_app, "upload")
def upload_file(
    here: "Session",
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file.", exists=True, dir_okay=False)],
    purpose: Annotated[str, typer.Option("--purpose", help="What it is for.")] = "fine-tune",
    expires_after: Annotated[
        int | None, typer.Option("--expires-after", metavar="SECONDS", help="Delete it so long after now.")
    ] = None,
) -> None:
    """Upload a file; its rows are checked on the way in."""
    from rft.platform.cli.transfer import upload

    here.show(upload(here, path, purpose, expires_after), FILE)


_PURPOSE = Annotated[str | None, typer.Option("--purpose", help="Only these.")]
list_command(files_app, "list", "Files, newest first.", "/files", FILE, filters={"purpose": _PURPOSE})
get_command(files_app, "get", "One file: what is in it, and what is wrong with it.", _FILE, FILE)
list_command(
    files_app,
    "problems",
    "Every line of a file that keeps jobs from using it.",
    f"{_FILE}/problems",
    BAD_LINE,
    limit=100,
)


@command(files_app, "download", has_json=False)
def download_file(here: "Session", file_id: FileId, output: Output = None, force: Force = False) -> None:
    """Write a file's content here, under its own name or another."""
    from rft.platform.cli.client import part
    from rft.platform.cli.transfer import download, local_name

    file = Answer(here.client.get(f"/files/{part(file_id)}"))
    target = output or local_name(file)
    download(here, file, target, may_overwrite=force)
    here.note(f"wrote {target}")


delete_command(files_app, "delete", "Delete a file that no unfinished job needs.", _FILE)
