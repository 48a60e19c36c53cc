"""`rft tools ...` and `rft graders ...`: the registry, and dry runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli.answers import Answer
from rft.platform.cli.command import command, delete_command, get_command, list_command
from rft.platform.cli.options import Body, GraderId, ToolId
from rft.platform.cli.resources import GRADER, RUN_GRADER, RUN_TOOL, TOOL, TRIED_GRADER, TRIED_TOOL, valid_grader

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.session import Session

tools_app = typer.Typer(help="Tools: register them once, try them before a job does.", no_args_is_help=True)
graders_app = typer.Typer(help="Graders: register them once, try them before a job does.", no_args_is_help=True)

GraderBody = Annotated[str, typer.Argument(metavar="GRADER.json", help="The grader as JSON; `-`: standard input.")]
Arguments = Annotated[str, typer.Option("--arguments", metavar="JSON", help="What the model would pass.")]
Item = Annotated[str, typer.Option("--item", metavar="JSON", help="The dataset row.")]
Sample = Annotated[str, typer.Option("--sample", help="What the model answered.")]

list_command(tools_app, "list", "Registered tools and how they fare, newest first.", "/tools", TOOL)
get_command(tools_app, "get", "One registered tool.", "/tools/{tool_id}", TOOL)


@command(tools_app, "create")
def create_tool(here: "Session", body: Body) -> None:
    """Register a tool: name, server_url, headers, and whatever else a job's tool may have."""
    from rft.platform.cli.session import read_body

    here.show(here.client.post("/tools", read_body(body)), TOOL)


@command(tools_app, "update")
def update_tool(here: "Session", tool_id: ToolId, body: Body) -> None:
    """Change the fields that BODY.json names; null takes one away."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import read_body

    here.show(here.client.post(f"/tools/{part(tool_id)}", read_body(body)), TOOL)


delete_command(tools_app, "delete", "Forget a registered tool; jobs keep their copies.", "/tools/{tool_id}")


@command(tools_app, "test")
def try_tool(here: "Session", tool_id: ToolId, arguments: Arguments = "{}", item: Item = "{}") -> None:
    """Make one call to a registered tool; exit status 1 when it does not work."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import to_object

    request: JsonObject = {"arguments": to_object(arguments, "--arguments"), "item": to_object(item, "--item")}
    raw = here.client.post(f"/tools/{part(tool_id)}/test", request, is_patient=True)
    here.show(raw, TRIED_TOOL)
    raise typer.Exit(0 if Answer(raw).need("is_ok", bool) else 1)


@command(tools_app, "run")
def run_tool(
    here: "Session",
    body: Annotated[str, typer.Argument(metavar="TOOL.json", help="The tool as in a job; `-`: standard input.")],
    arguments: Arguments = "{}",
    item: Item = "{}",
) -> None:
    """Call a tool that is not registered, as a rollout would."""
    from rft.platform.cli.session import read_body, to_object

    to_object(arguments, "--arguments")
    tool = read_body(body)
    given = {"server_url": tool.get("server_url", tool.get("url")), "headers": tool.get("headers")}
    request: JsonObject = {
        "name": tool.get("name"),
        **{name: value for name, value in given.items() if value is not None},
        "arguments": arguments,
        "item": to_object(item, "--item"),
    }
    here.show(here.client.post("/fine_tuning/alpha/tool/run", request, is_patient=True), RUN_TOOL)


list_command(graders_app, "list", "Registered graders and how they fare, newest first.", "/graders", GRADER)
get_command(graders_app, "get", "One registered grader.", "/graders/{grader_id}", GRADER)


@command(graders_app, "create")
def create_grader(here: "Session", grader: GraderBody) -> None:
    """Register a grader of any type."""
    from rft.platform.cli.session import read_grader

    here.show(here.client.post("/graders", {"grader": read_grader(grader)}), GRADER)


@command(graders_app, "update")
def update_grader(here: "Session", grader_id: GraderId, grader: GraderBody) -> None:
    """Put another grader in a registered one's place; masked header values stay what they are."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import read_grader

    here.show(here.client.post(f"/graders/{part(grader_id)}", {"grader": read_grader(grader)}), GRADER)


delete_command(graders_app, "delete", "Forget a registered grader; jobs keep their copies.", "/graders/{grader_id}")


@command(graders_app, "test")
def try_grader(here: "Session", grader_id: GraderId, sample: Sample = "", item: Item = "{}") -> None:
    """Grade one answer with a registered grader; exit status 1 when there is no grade."""
    from rft.platform.cli.client import part
    from rft.platform.cli.session import to_object

    request: JsonObject = {"model_sample": sample, "item": to_object(item, "--item")}
    raw = here.client.post(f"/graders/{part(grader_id)}/test", request, is_patient=True)
    here.show(raw, TRIED_GRADER)
    raise typer.Exit(0 if Answer(raw).need("is_ok", bool) else 1)


@command(graders_app, "run")
def run_grader(here: "Session", grader: GraderBody, sample: Sample = "", item: Item = "{}") -> None:
    """Grade one answer with a grader that is not registered; exit status 1 when there is no grade."""
    from rft.platform.cli.session import read_grader, to_object

    row = to_object(item, "--item")
    request: JsonObject = {"grader": read_grader(grader), "model_sample": sample, "item": row}
    raw = here.client.post("/fine_tuning/alpha/graders/run", request, is_patient=True)
    here.show(raw, RUN_GRADER)
    told = Answer(raw)
    raise typer.Exit(0 if told.part("failure") is None and told.get("error_details", str) is None else 1)


@command(graders_app, "validate")
def validate_grader(here: "Session", grader: GraderBody) -> None:
    """Check a grader without calling anybody."""
    from rft.platform.cli.session import read_grader

    here.show(here.client.post("/fine_tuning/alpha/graders/validate", {"grader": read_grader(grader)}), valid_grader)
