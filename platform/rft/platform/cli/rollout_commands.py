"""`rft rollouts ...` and `rft regrade`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from rft.platform.cli.answers import Answer
from rft.platform.cli.arguments import After, GraderBody, JobId, Limit, Split, of_jobs, only
from rft.platform.cli.command import Group
from rft.platform.cli.inputs import JOBS, CannotDo, job_path, read_grader
from rft.platform.cli.rollout_resources import ATTEMPT, REGRADE, ROLLOUT

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.client import Client
    from rft.platform.cli.session import Session

rollouts_app = Group("What the model did: rollouts and their conversations.")
_JOBS_SEARCHED = 200
_Sort = Literal["newest", "reward", "completion_tokens", "duration_s", "tool_calls"]


def regrade(
    here: "Session",
    job_id: JobId,
    grader: GraderBody,
    split: Split = None,
    step: Annotated[list[int] | None, Option("--step", min=0, help="Only of this step; repeatable.")] = None,
    limit: Annotated[int | None, Option("--limit", min=1, help="Rollouts at most (default: 1000).")] = None,
    wait: Annotated[bool, Option("--wait/--no-wait", help="Wait for the report.")] = True,
) -> None:
    """Run another grader over a job's stored rollouts and tell what changes. The policy is not touched."""
    from rft.platform.cli.transfer import wait_for_end

    order: JsonObject = {"grader": read_grader(grader), "split": split, "steps": [*step] if step else None}
    if limit is not None:
        order["limit"] = limit
    raw = here.client.post(job_path(job_id, "regrade"), order)
    if wait:
        regrade_id = Answer(raw).need("id", str)
        here.note(f"{regrade_id} is ordered; after Ctrl-C, `rft jobs regrades {job_id} {regrade_id}` shows it")
        raw = wait_for_end(here, "grading again", raw, job_path(job_id, "regrade", regrade_id))
    here.show(raw, REGRADE)
    raise typer.Exit(1 if Answer(raw).need("status", str) == "failed" else 0)


TraceId = Annotated[str, Argument(metavar="TRACE", help="trace_...")]
OfJob = Annotated[
    str | None,
    Option(
        "--job",
        metavar="JOB",
        help="Whose rollout it is (default: the newest jobs are searched).",
        autocompletion=of_jobs,
    ),
]
rollouts_app.add_list(
    "list",
    "A job's rollouts, newest step first.",
    f"{JOBS}/{{job_id}}/rollouts",
    ROLLOUT,
    limit=50,
    filters={
        "step": only("--step", "Only of this step.", int, min=0),
        "from_step": only("--from-step", "From this step on.", int, min=0),
        "to_step": only("--to-step", "Up to this step.", int, min=0),
        "row_index": only("--row", "Only of this dataset row, from 0.", int, min=0),
        "split": Split,
        "outcome": only("--outcome", "Only with this outcome.", Literal["graded", "failed"]),
        "min_reward": only("--min-reward", "Only with at least this reward.", float),
        "max_reward": only("--max-reward", "Only with at most this reward.", float),
        "stop_reason": only("--stop-reason", "Only those that ended so."),
        "failure_code": only("--failure", "Only failed so.", metavar="CODE"),
        "tool": only("--tool", "Only those that called this tool."),
        "q": only("--search", "Words of prompt or answer; `word*` is a beginning.", metavar="WORDS"),
        "contains": only("--contains", "Text in prompt or answer; needs --step.", metavar="TEXT"),
        "sort": only("--sort", "In this order, the largest first.", _Sort),
        "order": only("--order", "asc: the smallest first.", Literal["asc", "desc"]),
    },
)


@rollouts_app.add("show")
def show_rollout(here: "Session", trace_id: TraceId, job: OfJob = None) -> None:
    """One rollout's whole conversation, and how it was judged."""
    from rft.platform.cli.pages import rollout_page

    here.show(_rollout(here.client, trace_id, job)[1], rollout_page)


@rollouts_app.add("attempts")
def list_attempts(
    here: "Session", trace_id: TraceId, job: OfJob = None, limit: Limit = 100, after: After = None
) -> None:
    """Every call a rollout made to your endpoints, each attempt of it."""
    path = _rollout(here.client, trace_id, job)[0]
    here.show_all(here.client.listed(f"{path}/attempts", limit=limit, after=after), ATTEMPT)


def _rollout(client: "Client", trace_id: str, job_id: str | None) -> tuple[str, "JsonObject"]:
    """Path and object of a rollout. Raises CannotDo when no searched job has it."""
    from rft.platform.cli.client import NotFound

    if job_id is not None:
        path = job_path(job_id, "rollouts", trace_id)
        return path, client.get(path)
    for job in client.listed(JOBS, limit=_JOBS_SEARCHED).found:
        path = job_path(str(job.get("id")), "rollouts", trace_id)
        try:
            return path, client.get(path)
        except NotFound:
            continue
    raise CannotDo(f"none of the newest {_JOBS_SEARCHED} jobs has a rollout '{trace_id}'; --job names an older one")
