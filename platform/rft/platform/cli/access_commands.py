"""Short command groups: models, permissions, rehearsals, signing secrets, and the link to the dashboard."""

from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli import completing
from rft.platform.cli.answers import Answer
from rft.platform.cli.command import command, delete_command, get_command, list_command
from rft.platform.cli.options import Checkpoint, RehearsalId
from rft.platform.cli.resources import MODEL, PERMISSION, REHEARSAL, SIGNING_SECRET, rehearsal_state

if TYPE_CHECKING:
    from rft.platform.cli.session import Session

models_app = typer.Typer(help="Base models, and what jobs made of them.", no_args_is_help=True)


@command(models_app, "list")
def list_models(here: "Session") -> None:
    """Base models, fine-tuned models and kept checkpoints."""
    here.show_all(here.client.listed("/models", limit=100_000), MODEL)


get_command(models_app, "get", "One model.", "/models/{model}", MODEL)
delete_command(
    models_app, "delete", "Delete a fine-tuned model, or one checkpoint of it.", "/models/{fine_tuned_model}"
)

permissions_app = typer.Typer(help="Checkpoint permissions: which projects may use a checkpoint.", no_args_is_help=True)
_PERMISSIONS = "/fine_tuning/checkpoints/{checkpoint}/permissions"
_PROJECT = Annotated[str | None, typer.Option("--project", help="Only of this project.")]
list_command(
    permissions_app,
    "list",
    "A checkpoint's permissions, newest first.",
    _PERMISSIONS,
    PERMISSION,
    filters={"project_id": _PROJECT},
)


@command(permissions_app, "create")
def create_permissions(
    here: "Session",
    checkpoint: Checkpoint,
    projects: Annotated[list[str], typer.Argument(metavar="PROJECT...", help="Ids of projects.")],
) -> None:
    """Allow projects to use a checkpoint."""
    from rft.platform.cli.client import part, to_listing

    made = here.client.post(_PERMISSIONS.format(checkpoint=part(checkpoint)), {"project_ids": [*projects]})
    here.show_all(to_listing(made), PERMISSION)


delete_command(permissions_app, "delete", "Take a permission back.", f"{_PERMISSIONS}/{{permission}}")

rehearsals_app = typer.Typer(help="Rehearsals that the platform played.", no_args_is_help=True)
list_command(rehearsals_app, "list", "Rehearsals, newest first.", "/rehearsals", REHEARSAL)


@command(rehearsals_app, "get")
def get_rehearsal(here: "Session", rehearsal_id: RehearsalId) -> None:
    """One rehearsal with its report."""
    from rft.platform.cli.client import part
    from rft.platform.cli.rehearsal_report import show, to_report

    raw = here.client.get(f"/rehearsals/{part(rehearsal_id)}")
    here.show(raw, REHEARSAL)
    report = None if here.as_json else to_report(raw)
    if report is not None:
        show(report, here.out)


get_command(
    rehearsals_app,
    "cancel",
    "Break a rehearsal off; it has no report then.",
    "/rehearsals/{rehearsal_id}/cancel",
    lambda rehearsal: f"{rehearsal.need('id', str)}: {rehearsal_state(rehearsal)}",
    method="post",
)

signing_app = typer.Typer(help="Secrets that calls to tools and graders are signed with.", no_args_is_help=True)
_SECRETS = "/signing_secrets"
list_command(signing_app, "list", "Signing secrets without their values, newest first.", _SECRETS, SIGNING_SECRET)
get_command(
    signing_app,
    "rotate",
    "Make a new secret and print it, this once. The old one stays valid until you retire it.",
    f"{_SECRETS}/rotate",
    lambda made: f"{made.need('id', str)}  {made.need('secret', str)}",
    method="post",
)
delete_command(
    signing_app,
    "retire",
    "Sign nothing with this secret any more.",
    f"{_SECRETS}/{{secret_id}}",
    lambda secret: f"{secret.need('id', str)} is {secret.need('status', str)}",
)


def print_link(
    here: "Session",
    job_id: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="ftjob-...: its page.", autocompletion=completing.jobs)
    ] = None,
) -> None:
    """Print a link that signs one browser in to the dashboard, once, within 15 minutes."""
    from rft.platform.cli.client import part
    from rft.platform.dashboard.links import moved

    raw = here.client.post("/dashboard/sign_in_links")
    # As we reach the platform: it may not know what a proxy calls it.
    root = here.client.address.base_url.removesuffix("/v1")
    url = moved(Answer(raw).need("url", str), root, "/" if job_id is None else f"/jobs/{part(job_id)}")
    here.show({**raw, "url": url}, lambda link: link.need("url", str))
