"""`rft jobs ...`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from rft.core.errors import RftError
from rft.platform.cli.answers import Answer
from rft.platform.cli.arguments import (
    After,
    Body,
    Force,
    FromStep,
    JobId,
    Limit,
    Output,
    ToStep,
)
from rft.platform.cli.command import Group
from rft.platform.cli.inputs import JOBS, CannotDo, job_path, pairs, read_body
from rft.platform.cli.job_resources import CHECKPOINT, ENDPOINT, JOB, STEP, job_state
from rft.platform.cli.rollout_resources import REGRADE

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.session import Session

jobs_app = Group("Fine-tuning jobs.")
_JOB = f"{JOBS}/{{job_id}}"


def _moved(job: Answer) -> str:
    return f"{job.need('id', str)}: {job_state(job)}"


def _upload(flag: str, about: str) -> Any:
    return Option(flag, help=about, exists=True, dir_okay=False)


@jobs_app.add("create")
def create_job(
    here: "Session",
    body: Body,
    train: Annotated[Path | None, _upload("--train", "Upload this and train on it.")] = None,
    valid: Annotated[Path | None, _upload("--valid", "Upload this and validate with it.")] = None,
    test: Annotated[Path | None, _upload("--test", "Upload this and measure on it.")] = None,
    model: Annotated[str | None, Option("--model", help="Another base model than the body names.")] = None,
    watch: Annotated[bool, Option("--watch", help="Go on as `rft jobs watch`.")] = False,
) -> None:
    """Order a job: BODY.json holds what POST /v1/fine_tuning/jobs takes."""
    from rft.platform.cli.transfer import uploading_for_order

    order = read_body(body)
    if model is not None:
        order["model"] = model
    with uploading_for_order(here) as send:
        for field, path in (("training_file", train), ("validation_file", valid), ("test_file", test)):
            if path is not None:
                order[field] = send(path)
        made = here.client.post(JOBS, order, is_patient=True)
    here.show(made, JOB)
    job_id = Answer(made).need("id", str)
    for warning in _warnings(here, job_id):
        here.warn(warning)
    if watch:
        watch_job(here, job_id)


def _warnings(here: "Session", job_id: str) -> list[str]:
    """What the platform finds doubtful in an order that it took, such as fields that nobody knows."""
    try:
        found = here.client.listed(job_path(job_id, "events"), limit=100).found
    except RftError:
        return []  # The order is placed; its events can be read later.
    events = map(Answer, reversed(found))
    return [event.need("message", str) for event in events if event.need("level", str) == "warn"]


@jobs_app.add("list")
def list_jobs(
    here: "Session",
    metadata: Annotated[
        list[str] | None, Option("--metadata", metavar="KEY=VALUE", help="Only jobs with this pair; repeatable.")
    ] = None,
    search: Annotated[
        str | None,
        Option("--search", metavar="WORDS", help="Only jobs whose name, id, model or metadata has them."),
    ] = None,
    status: Annotated[str | None, Option("--status", help="Only jobs of this status.")] = None,
    sort: Annotated[
        Literal["created", "reward", "gain", "burst", "duration"], Option("--sort", help="The largest first.")
    ] = "created",
    limit: Limit = 20,
    after: After = None,
) -> None:
    """Jobs, newest first."""
    wanted: dict[str, str | None] = {
        f"metadata[{key}]": value for key, value in pairs(metadata or [], "--metadata").items()
    }
    # What is as ever is not named: platforms of earlier releases know no such parameters.
    wanted |= {"search": search, "status": status, "sort": None if sort == "created" else sort}
    here.show_all(here.client.listed(JOBS, wanted, limit=limit, after=after), JOB)


jobs_app.add_get("get", "One job: where it stands, what it runs with, what it made.", _JOB, JOB)


@jobs_app.add("events")
def list_events(here: "Session", job_id: JobId, limit: Limit = 20, after: After = None) -> None:
    """A job's newest events, the latest at the bottom (with --json newest first, as the API has them)."""
    from rft.platform.cli.watch import event_lines

    here.show_list(here.client.listed(job_path(job_id, "events"), limit=limit, after=after), event_lines, "no events")


_PAUSE = "Stop a job within seconds; `resume` goes on at the same step."
jobs_app.add_post("cancel", "End a job for good; what it learned so far stays.", f"{_JOB}/cancel", _moved)
jobs_app.add_delete("delete", "Delete a job that is over, with its rollouts, models and results.", _JOB)
jobs_app.add_post("pause", _PAUSE, f"{_JOB}/pause", _moved)


@jobs_app.add("resume")
def resume_job(
    here: "Session",
    job_id: JobId,
    max_importance_gap: Annotated[
        float | None,
        Option("--max-importance-gap", help="Pause only beyond this difference of trainer and sampler."),
    ] = None,
) -> None:
    """Let a paused job go on."""
    options: JsonObject = {} if max_importance_gap is None else {"max_importance_gap": max_importance_gap}
    here.show(here.client.post(job_path(job_id, "resume"), options), _moved)


jobs_app.add_list(
    "checkpoints", "The checkpoints that are kept, and what they reached.", f"{_JOB}/checkpoints", CHECKPOINT
)


@jobs_app.add("endpoints")
def list_endpoints(
    here: "Session",
    job_id: JobId,
    from_step: FromStep = None,
    to_step: ToStep = None,
    changes: Annotated[
        str | None,
        Option(
            "--set",
            metavar="CHANGES.json",
            help="New URLs and headers for a held, paused or queued job (POST .../endpoints); `-`: standard input.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """How the job's tools and graders fare (default: over the latest ten steps); or other URLs and headers for them."""
    path = job_path(job_id, "endpoints")
    if changes is not None:
        here.show(here.client.post(path, read_body(changes)), _moved)
        return
    here.show_all(here.client.listed(path, {"from_step": from_step, "to_step": to_step}, limit=1000), ENDPOINT)


@jobs_app.add("regrades")
def show_regrades(
    here: "Session",
    job_id: JobId,
    regrade_id: Annotated[
        str | None, Argument(metavar="[REGRADE]", help="Only this one, with its report.", show_default=False)
    ] = None,
    limit: Limit = 20,
    after: After = None,
) -> None:
    """A job's regrades, newest first; or one of them."""
    if regrade_id is not None:
        here.show(here.client.get(job_path(job_id, "regrade", regrade_id)), REGRADE)
        return
    here.show_all(here.client.listed(job_path(job_id, "regrade"), limit=limit, after=after), REGRADE)


@jobs_app.add("result", has_json=False)
def get_result(here: "Session", job_id: JobId, output: Output = None, force: Force = False) -> None:
    """The result file, a CSV with a line per step; to standard output unless told otherwise."""
    from rft.platform.cli.transfer import STANDARD_OUTPUT, download

    job = Answer(here.client.get(job_path(job_id)))
    files = job.listed("result_files", str)
    if not files:
        raise CannotDo(f"{job.need('id', str)} is {job_state(job)} and has no result file yet")
    download(here, files[0], output or STANDARD_OUTPUT, may_overwrite=force)


@jobs_app.add("watch")
def watch_job(here: "Session", job_id: JobId) -> None:
    """Follow a job to its end: reward curve, state, events. Exit status 0 succeeded, 1 failed, 2 cancelled.

    Ctrl-C ends the watching, never the job. With --json: the stream's messages, one a line.
    """
    from rft.platform.cli.watch import watch

    watch(here, job_id, job_path(job_id, "stream"))


jobs_app.add_list(
    "steps",
    "A job's steps, oldest first; step 0 is the model before training. --after takes a step's number.",
    f"{_JOB}/steps",
    STEP,
    limit=100,
)


@jobs_app.add("curves")
def show_curves(
    here: "Session",
    job_id: JobId,
    from_step: FromStep = None,
    to_step: ToStep = None,
    points: Annotated[
        int, Option("--points", min=50, max=2000, help="At most so many steps, the most telling ones.")
    ] = 500,
) -> None:
    """A job's reward curve up to now; `rft jobs watch` draws it as it grows."""
    from rft.platform.cli.chart import curves_page

    window = {"from_step": from_step, "to_step": to_step, "points": points}
    raw = here.client.get(job_path(job_id, "curves"), window)
    # An evaluation that lost most of its rollouts may be the highest, and no checkpoint of the job's.
    best_step = None if here.as_json else Answer(here.client.get(job_path(job_id))).get("best_step", int)
    here.show(raw, lambda curves: curves_page(curves, here.out.width, best_step))
