"""`rft permissions ...`."""

from typing import Annotated

import typer

from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, Limit

permissions_app = typer.Typer(help="Checkpoint permissions: which projects may use a checkpoint.", no_args_is_help=True)

Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="ft:... or ft:...:ckpt-step-N")]


@permissions_app.command("list")
def list_permissions(
    checkpoint: Checkpoint,
    project: Annotated[str | None, typer.Option("--project", help="Only of this project.")] = None,
    limit: Limit = 20,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A checkpoint's permissions, newest first."""
    from rft.platform.cli.access_pages import permission_table
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Permission

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed(_path(checkpoint), {"project_id": project}, limit=limit, after=after)
        here.show_all(listing, Permission, permission_table, "no permissions")


@permissions_app.command("create")
def create_permissions(
    checkpoint: Checkpoint,
    projects: Annotated[list[str], typer.Argument(metavar="PROJECT...", help="Ids of projects.")],
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Allow projects to use a checkpoint."""
    from rft.platform.cli.access_pages import permission_table
    from rft.platform.cli.client import to_listing
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Permission

    with session(base_url, api_key, as_json=as_json) as here:
        made = here.client.post(_path(checkpoint), {"project_ids": [*projects]})
        here.show_all(to_listing(made), Permission, permission_table, "no permissions")


@permissions_app.command("delete")
def delete_permission(
    checkpoint: Checkpoint,
    permission: Annotated[str, typer.Argument(metavar="PERMISSION", help="cp_...")],
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Take a permission back."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        here.show_gone(here.client.delete(f"{_path(checkpoint)}/{part(permission)}"))


def _path(checkpoint: str) -> str:
    from rft.platform.cli.client import part

    return f"/fine_tuning/checkpoints/{part(checkpoint)}/permissions"
