"""`rft jobs ...`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, Body, Force, FromStep, JobId, Limit, Output, ToStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from rft.core.base import JsonObject
    from rft.platform.cli.session import Session

jobs_app = typer.Typer(help="Fine-tuning jobs.", no_args_is_help=True)
_JOBS = "/fine_tuning/jobs"


@jobs_app.command("create")
def create_job(
    body: Body,
    train: Annotated[
        Path | None, typer.Option("--train", help="Upload this and train on it.", exists=True, dir_okay=False)
    ] = None,
    valid: Annotated[
        Path | None, typer.Option("--valid", help="Upload this and validate with it.", exists=True, dir_okay=False)
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Another base model than the body names.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on as `rft jobs watch`.")] = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Order a job: BODY.json holds what POST /v1/fine_tuning/jobs takes."""
    from rft.platform.cli.job_pages import job_page
    from rft.platform.cli.session import read_body, session
    from rft.platform.cli.transfer import uploading_for_order
    from rft.platform.cli.views import Job

    with session(base_url, api_key, as_json=as_json) as here:
        order = read_body(body)
        if model is not None:
            order["model"] = model
        with uploading_for_order(here) as send:
            for field, path in (("training_file", train), ("validation_file", valid)):
                if path is not None:
                    order[field] = send(path)
            made = here.client.post(_JOBS, order)
        here.show(made, Job, job_page)
        job_id = Job.model_validate(made).id
        for warning in _warnings(here, job_id):
            here.warn(warning)
    if watch:
        watch_job(job_id, base_url, api_key, as_json)


@jobs_app.command("list")
def list_jobs(
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", metavar="KEY=VALUE", help="Only jobs with this pair; repeatable.")
    ] = None,
    limit: Limit = 20,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Jobs, newest first."""
    from rft.platform.cli.job_pages import job_table
    from rft.platform.cli.session import pairs, session
    from rft.platform.cli.views import Job

    with session(base_url, api_key, as_json=as_json) as here:
        wanted = {f"metadata[{key}]": value for key, value in pairs(metadata or [], "--metadata").items()}
        here.show_all(here.client.listed(_JOBS, wanted, limit=limit, after=after), Job, job_table, "no jobs")


@jobs_app.command("get")
def get_job(job_id: JobId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """One job: where it stands, what it runs with, what it made."""
    from rft.platform.cli.job_pages import job_page
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Job

    with session(base_url, api_key, as_json=as_json) as here:
        here.show(here.client.get(_path(job_id)), Job, job_page)


@jobs_app.command("events")
def list_events(
    job_id: JobId,
    limit: Limit = 20,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A job's newest events, the latest at the bottom (with --json newest first, as the API has them)."""
    from rft.platform.cli.job_pages import event_lines
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Event

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed(_path(job_id, "events"), limit=limit, after=after)
        here.show_all(listing, Event, event_lines, "no events")


@jobs_app.command("cancel")
def cancel_job(job_id: JobId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """End a job for good; what it learned so far stays."""
    _move(job_id, "cancel", base_url, api_key, as_json=as_json)


@jobs_app.command("pause")
def pause_job(job_id: JobId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Stop a job within seconds; `resume` goes on at the same step."""
    _move(job_id, "pause", base_url, api_key, as_json=as_json)


@jobs_app.command("resume")
def resume_job(job_id: JobId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Let a paused job go on."""
    _move(job_id, "resume", base_url, api_key, as_json=as_json)


@jobs_app.command("checkpoints")
def list_checkpoints(
    job_id: JobId,
    limit: Limit = 20,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """The checkpoints that are kept, and what they reached."""
    from rft.platform.cli.job_pages import checkpoint_table
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Checkpoint

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed(_path(job_id, "checkpoints"), limit=limit, after=after)
        here.show_all(listing, Checkpoint, checkpoint_table, "no checkpoints")


@jobs_app.command("endpoints")
def list_endpoints(
    job_id: JobId,
    from_step: FromStep = None,
    to_step: ToStep = None,
    changes: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="CHANGES.json",
            help="New URLs and headers for a held or paused job (POST .../endpoints); `-`: standard input.",
            show_default=False,
        ),
    ] = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """How the job's tools and graders fare (default: over the latest ten steps); or other URLs and headers for them."""
    from rft.platform.cli.job_pages import endpoint_table
    from rft.platform.cli.session import read_body, session
    from rft.platform.cli.views import EndpointHealth

    if changes is not None:
        _move(job_id, "endpoints", base_url, api_key, as_json=as_json, body=lambda: read_body(changes))
        return
    with session(base_url, api_key, as_json=as_json) as here:
        window = {"from_step": from_step, "to_step": to_step}
        listing = here.client.listed(_path(job_id, "endpoints"), window, limit=1000)
        here.show_all(listing, EndpointHealth, endpoint_table, "no calls yet")


@jobs_app.command("regrades")
def show_regrades(
    job_id: JobId,
    regrade_id: Annotated[
        str | None, typer.Argument(metavar="[REGRADE]", help="Only this one, with its report.", show_default=False)
    ] = None,
    limit: Limit = 20,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A job's regrades, newest first; or one of them."""
    from rft.platform.cli.client import part
    from rft.platform.cli.rollout_pages import regrade_page, regrade_table
    from rft.platform.cli.rollout_views import Regrade
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        if regrade_id is not None:
            here.show(here.client.get(_path(job_id, "regrade", part(regrade_id))), Regrade, regrade_page)
            return
        listing = here.client.listed(_path(job_id, "regrade"), limit=limit, after=after)
        here.show_all(listing, Regrade, regrade_table, "no regrades")


@jobs_app.command("result")
def get_result(
    job_id: JobId, output: Output = None, force: Force = False, base_url: BaseUrl = None, api_key: ApiKey = None
) -> None:
    """The result file, a CSV with a line per step; to standard output unless told otherwise."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import CannotDo, session
    from rft.platform.cli.transfer import STANDARD_OUTPUT, download
    from rft.platform.cli.views import File, Job

    with session(base_url, api_key) as here:
        job = Job.model_validate(here.client.get(_path(job_id)))
        if not job.result_files:
            raise CannotDo(f"{job.id} is {job.state} and has no result file yet")
        file = File.model_validate(here.client.get(f"/files/{part(job.result_files[0])}"))
        download(here, file, output or STANDARD_OUTPUT, may_overwrite=force)


@jobs_app.command("watch")
def watch_job(job_id: JobId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Follow a job to its end: reward curve, state, events. Exit status 0 succeeded, 1 failed, 2 cancelled.

    Ctrl-C ends the watching, never the job. With --json: the stream's messages, one a line.
    """
    from rft.platform.cli.session import session

    try:
        with session(base_url, api_key, as_json=as_json) as here:
            status = _watch(here, job_id)
    except KeyboardInterrupt:
        typer.echo(f"\nno longer watching; `rft jobs watch {job_id}` watches again", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(status)


def _watch(here: "Session", job_id: str) -> int:
    import time

    from rft.platform.cli.watch_screen import watch_in_lines, watch_on_terminal
    from rft.platform.cli.watching import Patience, Watched, follow

    watched = Watched()
    echo = here.print_sent if here.as_json else None
    followed = follow(here.client, _path(job_id, "stream"), watched, Patience(wait=time.sleep), echo)
    if echo is not None:
        for _ in followed:
            pass
    elif here.out.is_terminal:
        watch_on_terminal(followed, watched, here.out)
    else:
        watch_in_lines(followed, watched, here.out)
    return 1 if watched.exit_status is None else watched.exit_status


def _path(job_id: str, *more: str) -> str:
    from rft.platform.cli.client import part

    return "/".join((_JOBS, part(job_id), *more))


def _warnings(here: "Session", job_id: str) -> list[str]:
    """What the platform finds doubtful in an order that it took, such as fields that nobody knows."""
    from rft.platform.cli.client import PlatformProblem
    from rft.platform.cli.views import Event

    try:
        found = here.client.listed(_path(job_id, "events"), limit=100).found
    except PlatformProblem:
        return []  # The order is placed; its events can be read later.
    events = [Event.model_validate(raw) for raw in reversed(found)]
    return [event.message for event in events if event.level == "warn"]


def _move(
    job_id: str,
    move: str,
    base_url: str | None,
    api_key: str | None,
    *,
    as_json: bool,
    body: "Callable[[], JsonObject] | None" = None,
) -> None:
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Job

    with session(base_url, api_key, as_json=as_json) as here:
        raw = here.client.post(_path(job_id, move), *(() if body is None else (body(),)))
        if as_json:
            here.print_json(raw)
        else:
            job = Job.model_validate(raw)
            here.say(f"{job.id}: {job.state}")
