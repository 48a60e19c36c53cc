"""`rft files ...`."""

from pathlib import Path
from typing import Annotated

import typer

from rft.platform.cli import completing
from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, Force, Limit, Output

files_app = typer.Typer(help="Files: datasets to train on, results to read.", no_args_is_help=True)

FileId = Annotated[str, typer.Argument(metavar="FILE", help="file-...", autocompletion=completing.files)]


@files_app.command("upload")
def upload_file(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file.", exists=True, dir_okay=False)],
    purpose: Annotated[str, typer.Option("--purpose", help="What it is for.")] = "fine-tune",
    expires_after: Annotated[
        int | None, typer.Option("--expires-after", metavar="SECONDS", help="Delete it so long after now.")
    ] = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Upload a file; its rows are checked on the way in."""
    from rft.platform.cli.file_pages import file_page
    from rft.platform.cli.session import session
    from rft.platform.cli.transfer import upload
    from rft.platform.cli.views import File

    with session(base_url, api_key, as_json=as_json) as here:
        here.show(upload(here, path, purpose, expires_after), File, file_page)


@files_app.command("list")
def list_files(
    purpose: Annotated[str | None, typer.Option("--purpose", help="Only these.")] = None,
    limit: Limit = 20,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Files, newest first."""
    from rft.platform.cli.file_pages import file_table
    from rft.platform.cli.session import session
    from rft.platform.cli.views import File

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed("/files", {"purpose": purpose}, limit=limit, after=after)
        here.show_all(listing, File, file_table, "no files")


@files_app.command("get")
def get_file(file_id: FileId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """One file: what is in it, and what is wrong with it."""
    from rft.platform.cli.client import part
    from rft.platform.cli.file_pages import file_page
    from rft.platform.cli.session import session
    from rft.platform.cli.views import File

    with session(base_url, api_key, as_json=as_json) as here:
        here.show(here.client.get(f"/files/{part(file_id)}"), File, file_page)


@files_app.command("problems")
def list_problems(
    file_id: FileId,
    limit: Limit = 100,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Every line of a file that keeps jobs from using it."""
    from rft.platform.cli.client import part
    from rft.platform.cli.file_pages import problem_table
    from rft.platform.cli.session import session
    from rft.platform.cli.views import BadLine

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed(f"/files/{part(file_id)}/problems", {}, limit=limit, after=after)
        here.show_all(listing, BadLine, problem_table, "no problems")


@files_app.command("download")
def download_file(
    file_id: FileId,
    output: Output = None,
    force: Force = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Write a file's content here, under its own name or another."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session
    from rft.platform.cli.transfer import download, local_name
    from rft.platform.cli.views import File

    with session(base_url, api_key) as here:
        file = File.model_validate(here.client.get(f"/files/{part(file_id)}"))
        target = output or local_name(file)
        download(here, file, target, may_overwrite=force)
        here.note(f"wrote {target}")


@files_app.command("delete")
def delete_file(file_id: FileId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Delete a file that no unfinished job needs."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        here.show_gone(here.client.delete(f"/files/{part(file_id)}"))
