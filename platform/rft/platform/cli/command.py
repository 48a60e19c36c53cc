"""How commands are made: the options that every call takes, and what lists, objects and deletions have in common."""

import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import typer

from rft.platform.cli.answers import Resource
from rft.platform.cli.arguments import IN_PATHS, After, ApiKey, AsJson, BaseUrl, Body, GraderBody, HomeOption, Limit
from rft.platform.cli.inputs import part, read_body, read_grader

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.session import Page, Session

Work = Callable[..., None]
"""What a command does: a Session comes first, then its own arguments and options by name."""


class Input(NamedTuple):
    """An argument that names the body of a request."""

    name: str
    annotation: object
    read: "Callable[[str], JsonObject]"


def _grader_request(source: str) -> "JsonObject":
    return {"grader": read_grader(source)}


BODY, GRADER_BODY = Input("body", Body, read_body), Input("grader", GraderBody, _grader_request)


class Group(typer.Typer):
    """Commands that call the platform, or work on its host.

    Names in a path are arguments. --base-url, --api-key and --json come along, on the host --home.
    """

    def __init__(self, about: str, **more: Any) -> None:
        super().__init__(help=about, no_args_is_help=True, **more)

    def add(self, name: str, *, panel: str | None = None, has_json: bool = True) -> Callable[[Work], Work]:
        """Make a command of a function whose first parameter is a Session."""

        def register(work: Work) -> Work:
            self._add_call(name, work.__doc__ or "", _own(work), work, panel=panel, has_json=has_json)
            return work

        return register

    def add_on_host(self, name: str, *, panel: str | None = None) -> Callable[[Work], Work]:
        """Make a command of a function whose first parameter are the Settings of this host."""

        def register(work: Work) -> Work:
            def run(home: Path | None, **said: Any) -> None:
                from rft.platform.cli.session import problems_end_command
                from rft.platform.settings import settings

                with problems_end_command(as_json=bool(said.get("as_json"))):
                    chosen = {} if home is None else {"home": home.expanduser().absolute()}
                    work(settings().model_copy(update=chosen), **said)

            self._register(name, work.__doc__ or "", [*_own(work), _option("home", HomeOption, None)], run, panel)
            return work

        return register

    def add_list(
        self,
        name: str,
        about: str,
        path: str,
        resource: Resource,
        *,
        limit: int = 20,
        filters: Mapping[str, object] | None = None,
        order: str | None = None,
    ) -> None:
        """Show a list. Filters are options that the query takes under the same name."""

        def work(here: "Session", *, limit: int, after: str | None, **said: Any) -> None:
            query = {"order": order} | {name: said[name] for name in filters or ()}
            here.show_all(here.client.listed(_filled(path, said), query, limit=limit, after=after), resource)

        options = [_option(name, annotation, None) for name, annotation in (filters or {}).items()]
        options += [_option("limit", Limit, limit), _option("after", After, None)]
        self._add_call(name, about, [*_arguments(path), *options], work)

    def add_get(
        self,
        name: str,
        about: str,
        path: str,
        page: "Page",
        method: Literal["get", "post", "delete"] = "get",
        body: Input | None = None,
    ) -> None:
        """Show the object at a path, or what came of another method there."""

        def work(here: "Session", **said: Any) -> None:
            given = () if body is None else (body.read(said[body.name]),)
            here.show(getattr(here.client, method)(_filled(path, said), *given), page)

        self._add_call(name, about, _arguments(path) + ([] if body is None else [_option(*body[:2])]), work)

    def add_post(self, name: str, about: str, path: str, page: "Page", body: Input | None = None) -> None:
        """Show what came of a POST to a path."""
        self.add_get(name, about, path, page, "post", body)

    def add_delete(self, name: str, about: str, path: str, page: "Page" = "{id} is deleted") -> None:
        """Delete what is at a path."""
        self.add_get(name, about, path, page, "delete")

    def _add_call(
        self,
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

        parameters = [*own, _option("base_url", BaseUrl, None), _option("api_key", ApiKey, None)]
        parameters += [_option("as_json", AsJson, False)] if has_json else []
        self._register(name, about, parameters, run, panel)

    def _register(
        self, name: str, about: str, parameters: list[Parameter], run: Callable[..., None], panel: str | None
    ) -> None:
        """With the names, types and defaults of what Typer is to parse."""
        cast("Any", run).__signature__ = Signature(parameters)
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        self.command(name, help=about, rich_help_panel=panel)(run)


def _own(work: Work) -> list[Parameter]:
    """All parameters of a command's function but the first."""
    return [each.replace(kind=Parameter.KEYWORD_ONLY) for each in list(signature(work).parameters.values())[1:]]


def _option(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _arguments(path: str) -> list[Parameter]:
    return [_option(name, IN_PATHS[name]) for name in re.findall(r"{(\w+)}", path)]


def _filled(path: str, said: Mapping[str, str]) -> str:
    """The path with each name in it replaced by what was said, escaped."""
    return re.sub(r"{(\w+)}", lambda name: part(said[name[1]]), path)
