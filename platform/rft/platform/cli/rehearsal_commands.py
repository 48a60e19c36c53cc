"""`rft rehearsals ...`: those that the platform played. `rft rehearse --remote` orders one."""

from typing import Annotated

import typer

from rft.platform.cli import completing
from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, Limit

rehearsals_app = typer.Typer(help="Rehearsals that the platform played.", no_args_is_help=True)

RehearsalId = Annotated[
    str, typer.Argument(metavar="REHEARSAL", help="rehearsal-...", autocompletion=completing.rehearsals)
]


@rehearsals_app.command("list")
def list_rehearsals(
    limit: Limit = 20, after: After = None, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Rehearsals, newest first."""
    from rft.platform.cli.rehearsal_pages import Rehearsal, rehearsal_table
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed("/rehearsals", limit=limit, after=after)
        here.show_all(listing, Rehearsal, rehearsal_table, "no rehearsals")


@rehearsals_app.command("get")
def get_rehearsal(
    rehearsal_id: RehearsalId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """One rehearsal with its report."""
    from rft.platform.cli.client import part
    from rft.platform.cli.rehearsal_pages import Rehearsal, rehearsal_page
    from rft.platform.cli.rehearse import show
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        raw = here.client.get(f"/rehearsals/{part(rehearsal_id)}")
        here.show(raw, Rehearsal, rehearsal_page)
        report = None if as_json else Rehearsal.model_validate(raw).report
        if report is not None:
            show(report, here.out)


@rehearsals_app.command("cancel")
def cancel_rehearsal(
    rehearsal_id: RehearsalId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Break a rehearsal off; it has no report then."""
    from rft.platform.cli.client import part
    from rft.platform.cli.rehearsal_pages import Rehearsal
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        raw = here.client.post(f"/rehearsals/{part(rehearsal_id)}/cancel")
        if as_json:
            here.print_json(raw)
        else:
            rehearsal = Rehearsal.model_validate(raw)
            here.say(f"{rehearsal.id}: {rehearsal.state}")
