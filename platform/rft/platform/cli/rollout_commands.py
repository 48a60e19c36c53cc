"""`rft rollouts ...`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rft.platform.cli import completing
from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, JobId, Limit

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.client import Client

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


@rollouts_app.command("list")
def list_rollouts(
    job_id: JobId,
    step: Annotated[int | None, typer.Option("--step", min=0, help="Only of this step.")] = None,
    row: Annotated[int | None, typer.Option("--row", min=0, help="Only of this dataset row, from 0.")] = None,
    split: Annotated[Literal["train", "valid"] | None, typer.Option("--split", help="Only of this file.")] = None,
    outcome: Annotated[
        Literal["graded", "failed"] | None, typer.Option("--outcome", help="Only with this outcome.")
    ] = None,
    limit: Limit = 50,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A job's rollouts, newest step first."""
    from rft.platform.cli.client import part
    from rft.platform.cli.rollout_pages import rollout_table
    from rft.platform.cli.rollout_views import Rollout
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        wanted = {"step": step, "row_index": row, "split": split, "outcome": outcome}
        listing = here.client.listed(f"{_JOBS}/{part(job_id)}/rollouts", wanted, limit=limit, after=after)
        here.show_all(listing, Rollout, rollout_table, "no such rollouts")


@rollouts_app.command("show")
def show_rollout(
    trace_id: TraceId,
    job: OfJob = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """One rollout's whole conversation, and how it was judged."""
    from rft.platform.cli.rollout_pages import rollout_page
    from rft.platform.cli.rollout_views import WholeRollout
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        here.show(_found(here.client, trace_id, job)[1], WholeRollout, rollout_page)


@rollouts_app.command("attempts")
def list_attempts(
    trace_id: TraceId,
    job: OfJob = None,
    limit: Limit = 100,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Every call a rollout made to your endpoints, each attempt of it."""
    from rft.platform.cli.rollout_pages import attempt_table
    from rft.platform.cli.rollout_views import Attempt
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        path = _found(here.client, trace_id, job)[0]
        here.show_all(here.client.listed(f"{path}/attempts", limit=limit), Attempt, attempt_table, "no calls")


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
