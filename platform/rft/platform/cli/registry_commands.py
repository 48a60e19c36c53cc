"""`rft tools ...` and `rft graders ...`: the registry, and dry runs."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from rft.platform.cli import completing
from rft.platform.cli.options import After, ApiKey, AsJson, BaseUrl, Body, Limit

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.session import Session

Shelf: TypeAlias = Literal["tools", "graders"]

tools_app = typer.Typer(help="Tools: register them once, try them before a job does.", no_args_is_help=True)
graders_app = typer.Typer(help="Graders: register them once, try them before a job does.", no_args_is_help=True)

ToolId = Annotated[
    str, typer.Argument(metavar="TOOL", help="The registered tool's id.", autocompletion=completing.tools)
]
GraderId = Annotated[
    str, typer.Argument(metavar="GRADER", help="The registered grader's id.", autocompletion=completing.graders)
]
GraderBody = Annotated[str, typer.Argument(metavar="GRADER.json", help="The grader as JSON; `-`: standard input.")]
Arguments = Annotated[str, typer.Option("--arguments", metavar="JSON", help="What the model would pass.")]
Item = Annotated[str, typer.Option("--item", metavar="JSON", help="The dataset row.")]
Sample = Annotated[str, typer.Option("--sample", help="What the model answered.")]


@tools_app.command("list")
def list_tools(
    limit: Limit = 20, after: After = None, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Registered tools and how they fare, newest first."""
    _list("tools", limit, after, base_url, api_key, as_json=as_json)


@tools_app.command("get")
def get_tool(tool_id: ToolId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """One registered tool."""
    _get("tools", tool_id, base_url, api_key, as_json=as_json)


@tools_app.command("create")
def create_tool(body: Body, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Register a tool: name, server_url, headers, and whatever else a job's tool may have."""
    _send("tools", None, body, base_url, api_key, as_json=as_json)


@tools_app.command("update")
def update_tool(
    tool_id: ToolId, body: Body, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Change the fields that BODY.json names; null takes one away."""
    _send("tools", tool_id, body, base_url, api_key, as_json=as_json)


@tools_app.command("delete")
def delete_tool(tool_id: ToolId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Forget a registered tool; jobs keep their copies."""
    _delete("tools", tool_id, base_url, api_key, as_json=as_json)


@tools_app.command("test")
def try_tool(
    tool_id: ToolId,
    arguments: Arguments = "{}",
    item: Item = "{}",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Make one call to a registered tool; exit status 1 when it does not work."""
    from rft.platform.cli.client import part
    from rft.platform.cli.registry_pages import tried_tool_page
    from rft.platform.cli.registry_views import TriedTool
    from rft.platform.cli.session import session, to_object

    with session(base_url, api_key, as_json=as_json) as here:
        order: JsonObject = {"arguments": to_object(arguments, "--arguments"), "item": to_object(item, "--item")}
        raw = here.client.post(f"/tools/{part(tool_id)}/test", order, is_patient=True)
        here.show(raw, TriedTool, tried_tool_page)
        is_ok = TriedTool.model_validate(raw).is_ok
    raise typer.Exit(0 if is_ok else 1)


@tools_app.command("run")
def run_tool(
    body: Annotated[str, typer.Argument(metavar="TOOL.json", help="The tool as in a job; `-`: standard input.")],
    arguments: Arguments = "{}",
    item: Item = "{}",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool that is not registered, as a rollout would."""
    from rft.platform.cli.registry_pages import run_tool_page
    from rft.platform.cli.registry_views import RunTool
    from rft.platform.cli.session import read_body, session, to_object

    with session(base_url, api_key, as_json=as_json) as here:
        to_object(arguments, "--arguments")
        tool = read_body(body)
        given = {"server_url": tool.get("server_url", tool.get("url")), "headers": tool.get("headers")}
        order: JsonObject = {
            "name": tool.get("name"),
            **{name: value for name, value in given.items() if value is not None},
            "arguments": arguments,
            "item": to_object(item, "--item"),
        }
        raw = here.client.post("/fine_tuning/alpha/tool/run", order, is_patient=True)
        here.show(raw, RunTool, run_tool_page)


@graders_app.command("list")
def list_graders(
    limit: Limit = 20, after: After = None, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Registered graders and how they fare, newest first."""
    _list("graders", limit, after, base_url, api_key, as_json=as_json)


@graders_app.command("get")
def get_grader(grader_id: GraderId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """One registered grader."""
    _get("graders", grader_id, base_url, api_key, as_json=as_json)


@graders_app.command("create")
def create_grader(
    grader: GraderBody, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Register a grader of any type."""
    _send("graders", None, grader, base_url, api_key, as_json=as_json)


@graders_app.command("update")
def update_grader(
    grader_id: GraderId, grader: GraderBody, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Put another grader in a registered one's place; masked header values stay what they are."""
    _send("graders", grader_id, grader, base_url, api_key, as_json=as_json)


@graders_app.command("delete")
def delete_grader(
    grader_id: GraderId, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Forget a registered grader; jobs keep their copies."""
    _delete("graders", grader_id, base_url, api_key, as_json=as_json)


@graders_app.command("test")
def try_grader(
    grader_id: GraderId,
    sample: Sample = "",
    item: Item = "{}",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Grade one answer with a registered grader; exit status 1 when there is no grade."""
    from rft.platform.cli.client import part
    from rft.platform.cli.registry_pages import tried_grader_page
    from rft.platform.cli.registry_views import TriedGrader
    from rft.platform.cli.session import session, to_object

    with session(base_url, api_key, as_json=as_json) as here:
        order: JsonObject = {"model_sample": sample, "item": to_object(item, "--item")}
        raw = here.client.post(f"/graders/{part(grader_id)}/test", order, is_patient=True)
        here.show(raw, TriedGrader, tried_grader_page)
        is_ok = TriedGrader.model_validate(raw).is_ok
    raise typer.Exit(0 if is_ok else 1)


@graders_app.command("run")
def run_grader(
    grader: GraderBody,
    sample: Sample = "",
    item: Item = "{}",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Grade one answer with a grader that is not registered; exit status 1 when there is no grade."""
    from rft.platform.cli.registry_pages import run_grader_page
    from rft.platform.cli.registry_views import RunGrader
    from rft.platform.cli.session import read_body, session, to_object

    with session(base_url, api_key, as_json=as_json) as here:
        row = to_object(item, "--item")
        order: JsonObject = {"grader": unwrapped(read_body(grader)), "model_sample": sample, "item": row}
        raw = here.client.post("/fine_tuning/alpha/graders/run", order, is_patient=True)
        here.show(raw, RunGrader, run_grader_page)
        told = RunGrader.model_validate(raw)
        has_failed = told.failure is not None or told.error_details is not None
    raise typer.Exit(1 if has_failed else 0)


@graders_app.command("validate")
def validate_grader(
    grader: GraderBody, base_url: BaseUrl = None, api_key: ApiKey = None, as_json: AsJson = False
) -> None:
    """Check a grader without calling anybody."""
    from rft.platform.cli.registry_pages import valid_grader_page
    from rft.platform.cli.registry_views import ValidGrader
    from rft.platform.cli.session import read_body, session

    with session(base_url, api_key, as_json=as_json) as here:
        raw = here.client.post("/fine_tuning/alpha/graders/validate", {"grader": unwrapped(read_body(grader))})
        here.show(raw, ValidGrader, valid_grader_page)


def unwrapped(body: "JsonObject") -> "JsonObject":
    """The grader, also where the file holds it the way requests do."""
    inner = body.get("grader")
    return inner if isinstance(inner, dict) and "type" not in body else body


def _list(
    shelf: Shelf, limit: int, after: str | None, base_url: str | None, api_key: str | None, *, as_json: bool
) -> None:
    from rft.platform.cli.registry_pages import grader_table, tool_table
    from rft.platform.cli.registry_views import RegisteredGrader, RegisteredTool
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        listing = here.client.listed(f"/{shelf}", limit=limit, after=after)
        if shelf == "tools":
            here.show_all(listing, RegisteredTool, tool_table, "no registered tools")
        else:
            here.show_all(listing, RegisteredGrader, grader_table, "no registered graders")


def _get(shelf: Shelf, registered_id: str, base_url: str | None, api_key: str | None, *, as_json: bool) -> None:
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        _show(here, shelf, here.client.get(f"/{shelf}/{part(registered_id)}"))


def _send(
    shelf: Shelf, registered_id: str | None, body: str, base_url: str | None, api_key: str | None, *, as_json: bool
) -> None:
    """A new one, or a change of the one with this id."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import read_body, session

    path = f"/{shelf}" if registered_id is None else f"/{shelf}/{part(registered_id)}"
    with session(base_url, api_key, as_json=as_json) as here:
        said = read_body(body)
        _show(here, shelf, here.client.post(path, said if shelf == "tools" else {"grader": unwrapped(said)}))


def _show(here: "Session", shelf: Shelf, raw: "JsonObject") -> None:
    from rft.platform.cli.registry_pages import grader_page, tool_page
    from rft.platform.cli.registry_views import RegisteredGrader, RegisteredTool

    if shelf == "tools":
        here.show(raw, RegisteredTool, tool_page)
    else:
        here.show(raw, RegisteredGrader, grader_page)


def _delete(shelf: Shelf, registered_id: str, base_url: str | None, api_key: str | None, *, as_json: bool) -> None:
    from rft.platform.cli.client import part
    from rft.platform.cli.session import session

    with session(base_url, api_key, as_json=as_json) as here:
        here.show_gone(here.client.delete(f"/{shelf}/{part(registered_id)}"))
