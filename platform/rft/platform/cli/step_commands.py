"""`rft jobs steps` and `rft jobs curves`."""

from typing import Annotated

import typer

from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, FromStep, JobId, Limit, ToStep

_JOBS = "/fine_tuning/jobs"


def list_steps(
    job_id: JobId,
    limit: Limit = 100,
    after: After = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A job's steps, oldest first; step 0 is the model before training. --after takes a step's number."""
    from rft.platform.cli.client import part
    from rft.platform.cli.rollout_views import Step
    from rft.platform.cli.session import session
    from rft.platform.cli.step_pages import step_table

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed(f"{_JOBS}/{part(job_id)}/steps", limit=limit, after=after)
        here.show_all(listing, Step, step_table, "no steps")


def show_curves(
    job_id: JobId,
    from_step: FromStep = None,
    to_step: ToStep = None,
    points: Annotated[
        int, typer.Option("--points", min=50, max=2000, help="At most so many steps, the most telling ones.")
    ] = 500,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A job's reward curve up to now; `rft jobs watch` draws it as it grows."""
    from rft.platform.cli.client import part
    from rft.platform.cli.rollout_views import Curves
    from rft.platform.cli.session import session
    from rft.platform.cli.step_pages import CurvesPage

    with session(base_url, api_key, as_json=as_json) as here:
        window = {"from_step": from_step, "to_step": to_step, "points": points}
        here.show(here.client.get(f"{_JOBS}/{part(job_id)}/curves", window), Curves, CurvesPage)
