"""How commands are made: the options that every call takes, and what lists, objects and deletions have in common."""

import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, cast

import typer

from rft.platform.cli.answers import Answer, Resource
from rft.platform.cli.options import PATH_ARGUMENTS, After, ApiKey, AsJson, BaseUrl, Limit

if TYPE_CHECKING:
    from rft.platform.cli.session import Session

Work = Callable[..., None]
"""What a command does: a Session comes first, then its own arguments and options by name."""


def option(name: str, annotation: object, default: object = None) -> Parameter:
    """One option of a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


_CONNECTION = (option("base_url", BaseUrl), option("api_key", ApiKey))
_AS_JSON = option("as_json", AsJson, False)


def command(app: typer.Typer, name: str, *, panel: str | None = None, has_json: bool = True) -> Callable[[Work], Work]:
    """Register a function whose first parameter is a Session; --base-url, --api-key and --json come with it."""

    def register(work: Work) -> Work:
        own = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in list(signature(work).parameters.values())[1:]]
        _register(app, name, work.__doc__ or "", own, work, panel=panel, has_json=has_json)
        return work

    return register


def list_command(
    app: typer.Typer,
    name: str,
    about: str,
    path: str,
    resource: Resource,
    *,
    limit: int = 20,
    filters: Mapping[str, object] | None = None,
    has_after: bool = True,
) -> None:
    """Show a list. Names in the path become arguments, filters options that the query takes under the same name."""

    def work(here: "Session", *, limit: int, after: str | None = None, **said: Any) -> None:
        query = {name: said[name] for name in filters or ()}
        here.show_all(here.client.listed(_filled(path, said), query, limit=limit, after=after), resource)

    options = [option(name, annotation) for name, annotation in (filters or {}).items()]
    options.append(option("limit", Limit, limit))
    _register(app, name, about, [*_arguments(path), *options, *([option("after", After)] if has_after else [])], work)


def get_command(
    app: typer.Typer, name: str, about: str, path: str, page: "Resource | Callable[[Answer], str]", method: str = "get"
) -> None:
    """Show the object at a path; or, with the method `post`, what came of a POST there."""

    def work(here: "Session", **said: Any) -> None:
        raw = (here.client.post if method == "post" else here.client.get)(_filled(path, said))
        here.show(raw, page)

    _register(app, name, about, _arguments(path), work)


def delete_command(
    app: typer.Typer, name: str, about: str, path: str, say: Callable[[Answer], str] | None = None
) -> None:
    """Delete what is at a path."""

    def work(here: "Session", **said: Any) -> None:
        here.show(here.client.delete(_filled(path, said)), say or (lambda gone: f"{gone.need('id', str)} is deleted"))

    _register(app, name, about, _arguments(path), work)


def _register(
    app: typer.Typer,
    name: str,
    about: str,
    own: list[Parameter],
    work: Work,
    *,
    panel: str | None = None,
    has_json: bool = True,
) -> None:
    def run(base_url: str | None, api_key: str | None, as_json: bool = False, **said: Any) -> None:
        from rft.platform.cli.session import session

        with session(base_url, api_key, as_json=as_json) as here:
            work(here, **said)

    parameters = [*own, *_CONNECTION, *([_AS_JSON] if has_json else [])]
    # What Typer reads: the names, types and defaults of what it is to parse.
    cast("Any", run).__signature__ = Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command(name, help=about, rich_help_panel=panel)(run)


def _arguments(path: str) -> list[Parameter]:
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=PATH_ARGUMENTS[name])
        for name in re.findall(r"{(\w+)}", path)
    ]


def _filled(path: str, said: Mapping[str, str]) -> str:
    """The path with each name in it replaced by what was said, escaped."""
    from rft.platform.cli.client import part

    return re.sub(r"{(\w+)}", lambda name: part(said[name[1]]), path)
