"""`rft rollouts ...`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rft.platform.cli import completing
from rft.platform.cli.command import command, list_command
from rft.platform.cli.job_resources import ATTEMPT, ROLLOUT
from rft.platform.cli.options import Limit

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.client import Client
    from rft.platform.cli.session import Session

rollouts_app = typer.Typer(help="What the model did: rollouts and their conversations.", no_args_is_help=True)
_JOBS = "/fine_tuning/jobs"
_JOBS_SEARCHED = 200

TraceId = Annotated[str, typer.Argument(metavar="TRACE", help="trace_...")]
OfJob = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="JOB",
        help="Whose rollout it is (default: the newest jobs are searched).",
        autocompletion=completing.jobs,
    ),
]

list_command(
    rollouts_app,
    "list",
    "A job's rollouts, newest step first.",
    f"{_JOBS}/{{job_id}}/rollouts",
    ROLLOUT,
    limit=50,
    filters={
        "step": Annotated[int | None, typer.Option("--step", min=0, help="Only of this step.")],
        "row_index": Annotated[int | None, typer.Option("--row", min=0, help="Only of this dataset row, from 0.")],
        "split": Annotated[Literal["train", "valid"] | None, typer.Option("--split", help="Only of this file.")],
        "outcome": Annotated[
            Literal["graded", "failed"] | None, typer.Option("--outcome", help="Only with this outcome.")
        ],
    },
)


@command(rollouts_app, "show")
def show_rollout(here: "Session", trace_id: TraceId, job: OfJob = None) -> None:
    """One rollout's whole conversation, and how it was judged."""
    from rft.platform.cli.conversation import rollout_page

    here.show(_found(here.client, trace_id, job)[1], rollout_page)


@command(rollouts_app, "attempts")
def list_attempts(here: "Session", trace_id: TraceId, job: OfJob = None, limit: Limit = 100) -> None:
    """Every call a rollout made to your endpoints, each attempt of it."""
    path = _found(here.client, trace_id, job)[0]
    here.show_all(here.client.listed(f"{path}/attempts", limit=limit), ATTEMPT)


def _found(client: "Client", trace_id: str, job_id: str | None) -> tuple[str, "JsonObject"]:
    """Path and object of a rollout. Raises CannotDo when no searched job has it."""
    from rft.platform.cli.client import NotFound, part
    from rft.platform.cli.session import CannotDo

    if job_id is not None:
        path = f"{_JOBS}/{part(job_id)}/rollouts/{part(trace_id)}"
        return path, client.get(path)
    for job in client.listed(_JOBS, limit=_JOBS_SEARCHED).found:
        path = f"{_JOBS}/{part(str(job.get('id')))}/rollouts/{part(trace_id)}"
        try:
            return path, client.get(path)
        except NotFound:
            continue
    raise CannotDo(f"none of the newest {_JOBS_SEARCHED} jobs has a rollout '{trace_id}'; --job names an older one")
