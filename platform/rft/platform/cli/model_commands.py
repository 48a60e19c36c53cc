"""`rft models ...`."""

from typing import Annotated

import typer

from rft.platform.cli.options import ApiKey, AsJson, BaseUrl

models_app = typer.Typer(help="Base models, and what jobs made of them.", no_args_is_help=True)


@models_app.command("list")
def list_models(base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Base models, fine-tuned models and kept checkpoints."""
    from rft.platform.cli.job_pages import model_table
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Model

    with session(base_url, api_key, as_json=as_json) as here:
        here.show_all(here.client.listed("/models", limit=100_000), Model, model_table, "no models")


@models_app.command("get")
def get_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A name from the list.")],
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """One model."""
    from rft.platform.cli.client import part
    from rft.platform.cli.job_pages import model_page
    from rft.platform.cli.session import session
    from rft.platform.cli.views import Model

    with session(base_url, api_key, as_json=as_json) as here:
        here.show(here.client.get(f"/models/{part(model)}"), Model, model_page)


@models_app.command("delete")
def delete_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="ft:...")],
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Delete a fine-tuned model, or one checkpoint of it."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        here.show_gone(here.client.delete(f"/models/{part(model)}"))
