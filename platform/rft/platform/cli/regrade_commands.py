"""`rft regrade`: another grader over a job's stored rollouts."""

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rft.platform.cli.options import ApiKey, AsJson, BaseUrl, JobId

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.session import Session

_POLL_S = 0.5


def regrade(
    job_id: JobId,
    grader: Annotated[str, typer.Argument(metavar="GRADER.json", help="The grader as JSON; `-`: standard input.")],
    split: Annotated[Literal["train", "valid"] | None, typer.Option("--split", help="Only of this file.")] = None,
    step: Annotated[list[int] | None, typer.Option("--step", min=0, help="Only of this step; repeatable.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Rollouts at most (default: 1000).")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the report.")] = True,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Run another grader over a job's stored rollouts and tell what changes. The policy is not touched."""
    from rft.platform.cli.client import part
    from rft.platform.cli.registry_commands import unwrapped
    from rft.platform.cli.rollout_pages import regrade_page
    from rft.platform.cli.rollout_views import Regrade
    from rft.platform.cli.session import read_body, session

    with session(base_url, api_key, as_json=as_json) as here:
        order: JsonObject = {"grader": unwrapped(read_body(grader)), "split": split, "steps": [*step] if step else None}
        if limit is not None:
            order["limit"] = limit
        path = f"/fine_tuning/jobs/{part(job_id)}/regrade"
        raw = here.client.post(path, order)
        if wait:
            raw = _finished(here, path, raw)
        here.show(raw, Regrade, regrade_page)
        has_failed = Regrade.model_validate(raw).status == "failed"
    raise typer.Exit(1 if has_failed else 0)


def _finished(here: "Session", path: str, raw: "JsonObject") -> "JsonObject":
    """The regrade once it is over, with a bar meanwhile."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rft.platform.cli.client import part
    from rft.platform.cli.rollout_views import Regrade

    columns = (TextColumn("grading again"), BarColumn(), MofNCompleteColumn())
    hidden = here.as_json or not here.err.is_terminal
    with Progress(*columns, console=here.err, disable=hidden, transient=True) as progress:
        bar = progress.add_task("", total=None)
        while (regrade := Regrade.model_validate(raw)).status in ("queued", "running"):
            progress.update(bar, completed=regrade.done, total=regrade.total)
            time.sleep(_POLL_S)
            raw = here.client.get(f"{path}/{part(regrade.id)}")
    return raw
