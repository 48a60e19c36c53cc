"""`rft signing-secrets ...`: what `rft secrets` does on the platform's host, from anywhere."""

from typing import Annotated

import typer

from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, Limit

signing_app = typer.Typer(help="Secrets that calls to tools and graders are signed with.", no_args_is_help=True)


@signing_app.command("list")
def list_secrets(
    limit: Limit = 20, after: After = None, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Signing secrets without their values, newest first."""
    from rft.platform.cli.access_pages import signing_secret_table
    from rft.platform.cli.session import session
    from rft.platform.cli.views import SigningSecret

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed("/signing_secrets", limit=limit, after=after)
        here.show_all(listing, SigningSecret, signing_secret_table, "no signing secrets")


@signing_app.command("rotate")
def rotate(base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Make a new secret and print it, this once. The old one stays valid until you retire it."""
    from rft.platform.cli.session import session
    from rft.platform.cli.views import SigningSecret

    with session(base_url, api_key, as_json=as_json) as here:
        raw = here.client.post("/signing_secrets/rotate")
        if as_json:
            here.print_json(raw)
        else:
            made = SigningSecret.model_validate(raw)
            here.say(f"{made.id}  {made.secret}")


@signing_app.command("retire")
def retire(
    secret_id: Annotated[str, typer.Argument(metavar="ID", help="sigsec_...")],
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Sign nothing with this secret any more."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session
    from rft.platform.cli.views import SigningSecret

    with session(base_url, api_key, as_json=as_json) as here:
        raw = here.client.delete(f"/signing_secrets/{part(secret_id)}")
        if as_json:
            here.print_json(raw)
        else:
            secret = SigningSecret.model_validate(raw)
            here.say(f"{secret.id} is {secret.status}")
