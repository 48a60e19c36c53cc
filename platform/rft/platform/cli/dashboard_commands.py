"""`rft dashboard`."""

from typing import Annotated

import typer

from rft.platform.cli import completing
from rft.platform.cli.options import ApiKey, AsJson, BaseUrl


def print_link(
    job_id: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="ftjob-...: its page.", autocompletion=completing.jobs)
    ] = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Print a link that signs one browser in to the dashboard, once, within 15 minutes."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session
    from rft.platform.cli.views import SignInLink
    from rft.platform.dashboard.links import moved

    with session(base_url, api_key, as_json=as_json) as here:
        raw = here.client.post("/dashboard/sign_in_links")
        # As we reach the platform: it may not know what a proxy calls it.
        root = here.client.address.base_url.removesuffix("/v1")
        path = "/" if job_id is None else f"/jobs/{part(job_id)}"
        url = moved(SignInLink.model_validate(raw).url, root, path)
        if as_json:
            here.print_json({**raw, "url": url})
        else:
            here.say(url)
