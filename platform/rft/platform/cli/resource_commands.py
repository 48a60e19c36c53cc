"""The commands of files, tools, graders, providers, models, permissions, rehearsals, signing secrets, dashboard."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rft.platform.cli import resources
from rft.platform.cli.answers import Answer
from rft.platform.cli.arguments import (
    Checkpoint,
    FileId,
    Force,
    GraderBody,
    GraderId,
    Output,
    RehearsalId,
    ToolId,
    of_jobs,
    only,
)
from rft.platform.cli.command import BODY, GRADER_BODY, Group
from rft.platform.cli.inputs import part, read_body, read_grader, to_object

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.session import Session

files_app = Group("Files: datasets to train on, results to read.")
_FILE = "/files/{file_id}"


@files_app.add("upload")
def upload_file(
    here: "Session",
    path: Annotated[Path, Argument(metavar="PATH", help="The file.", exists=True, dir_okay=False)],
    purpose: Annotated[str, Option("--purpose", help="What it is for.")] = "fine-tune",
    expires_after: Annotated[
        int | None, Option("--expires-after", metavar="SECONDS", help="Delete it so long after now.")
    ] = None,
) -> None:
    """Upload a file; its rows are checked on the way in."""
    from rft.platform.cli.transfer import upload

    here.show(upload(here, path, purpose, expires_after), resources.FILE)


_PURPOSE = {"purpose": only("--purpose", "Only these.")}
_PROBLEMS = "Every line of a file that keeps jobs from using it."
files_app.add_list("list", "Files, newest first.", "/files", resources.FILE, filters=_PURPOSE)
files_app.add_get("get", "One file: what is in it, and what is wrong with it.", _FILE, resources.FILE)
files_app.add_list("problems", _PROBLEMS, f"{_FILE}/problems", resources.BAD_LINE, limit=100)


@files_app.add("download", has_json=False)
def download_file(here: "Session", file_id: FileId, output: Output = None, force: Force = False) -> None:
    """Write a file's content here, under its own name or another."""
    from rft.platform.cli.transfer import download

    here.note(f"wrote {download(here, file_id, output, may_overwrite=force)}")


files_app.add_delete("delete", "Delete a file that no unfinished job needs.", _FILE)

tools_app = Group("Tools: register them once, try them before a job does.")
graders_app = Group("Graders: register them once, try them before a job does.")
_TOOL, _GRADER = "/tools/{tool_id}", "/graders/{grader_id}"
_CREATE_TOOL = "Register a tool: name, server_url, headers, and whatever else a job's tool may have."
_UPDATE_TOOL = "Change the fields that BODY.json names; null takes one away."
_UPDATE_GRADER = "Put another grader in a registered one's place; redacted header values stay what they are."
tools_app.add_list("list", "Registered tools and how they fare, newest first.", "/tools", resources.TOOL)
tools_app.add_get("get", "One registered tool.", _TOOL, resources.TOOL)
tools_app.add_post("create", _CREATE_TOOL, "/tools", resources.TOOL, body=BODY)
tools_app.add_post("update", _UPDATE_TOOL, _TOOL, resources.TOOL, body=BODY)
tools_app.add_delete("delete", "Forget a registered tool; jobs keep their copies.", _TOOL)
graders_app.add_list("list", "Registered graders and how they fare, newest first.", "/graders", resources.GRADER)
graders_app.add_get("get", "One registered grader.", _GRADER, resources.GRADER)
graders_app.add_post("create", "Register a grader of any type.", "/graders", resources.GRADER, body=GRADER_BODY)
graders_app.add_post("update", _UPDATE_GRADER, _GRADER, resources.GRADER, body=GRADER_BODY)
graders_app.add_delete("delete", "Forget a registered grader; jobs keep their copies.", _GRADER)
_DRY_RUNS = "/fine_tuning/alpha"
Arguments = Annotated[str, Option("--arguments", metavar="JSON", help="What the model would pass.")]
Item = Annotated[str, Option("--item", metavar="JSON", help="The dataset row.")]
Sample = Annotated[str, Option("--sample", help="What the model answered.")]


@tools_app.add("test")
def try_tool(here: "Session", tool_id: ToolId, arguments: Arguments = "{}", item: Item = "{}") -> None:
    """Make one call to a registered tool; exit status 1 when it does not work."""
    request: JsonObject = {"arguments": to_object(arguments, "--arguments"), "item": to_object(item, "--item")}
    tried = here.client.post(f"/tools/{part(tool_id)}/test", request, is_patient=True)
    here.show(tried, resources.TRIED_TOOL)
    raise typer.Exit(0 if Answer(tried).need("is_ok", bool) else 1)


@tools_app.add("run")
def run_tool(
    here: "Session",
    body: Annotated[str, Argument(metavar="TOOL.json", help="The tool as in a job; `-`: standard input.")],
    arguments: Arguments = "{}",
    item: Item = "{}",
) -> None:
    """Call a tool that is not registered, as a rollout would."""
    to_object(arguments, "--arguments")
    tool = read_body(body)
    given = {"server_url": tool.get("server_url", tool.get("url")), "headers": tool.get("headers")}
    request: JsonObject = {"name": tool.get("name"), "arguments": arguments, "item": to_object(item, "--item")}
    request |= {name: value for name, value in given.items() if value is not None}
    here.show(here.client.post(f"{_DRY_RUNS}/tool/run", request, is_patient=True), resources.RUN_TOOL)


@graders_app.add("test")
def try_grader(here: "Session", grader_id: GraderId, sample: Sample = "", item: Item = "{}") -> None:
    """Grade one answer with a registered grader; exit status 1 when there is no grade."""
    request: JsonObject = {"model_sample": sample, "item": to_object(item, "--item")}
    raw = here.client.post(f"/graders/{part(grader_id)}/test", request, is_patient=True)
    here.show(raw, resources.TRIED_GRADER)
    raise typer.Exit(0 if Answer(raw).need("is_ok", bool) else 1)


@graders_app.add("run")
def run_grader(here: "Session", grader: GraderBody, sample: Sample = "", item: Item = "{}") -> None:
    """Grade one answer with a grader that is not registered; exit status 1 when there is no grade."""
    row = to_object(item, "--item")
    request: JsonObject = {"grader": read_grader(grader), "model_sample": sample, "item": row}
    raw = here.client.post(f"{_DRY_RUNS}/graders/run", request, is_patient=True)
    here.show(raw, resources.RUN_GRADER)
    told = Answer(raw)
    raise typer.Exit(0 if told.part("failure") is None and told.get("error_details", str) is None else 1)


graders_app.add_post(
    "validate",
    "Check a grader without calling anybody.",
    f"{_DRY_RUNS}/graders/validate",
    "a job would take this grader: {grader.name} ({grader.type})",
    body=GRADER_BODY,
)

models_app = Group("Base models, and what jobs made of them.")


@models_app.add("list")
def list_models(here: "Session") -> None:
    """Base models, fine-tuned models and kept checkpoints."""
    here.show_all(here.client.listed("/models", limit=100_000), resources.MODEL)


_SERVED = {
    "model": only("--model", "Only of this model."),
    "api_key_id": only("--key", "Only of this key, by its id.", metavar="KEY"),
    "since": only("--since", "First day, UTC.", metavar="YYYY-MM-DD"),
    "until": only("--until", "Last day, UTC.", metavar="YYYY-MM-DD"),
}
_SERVED_ABOUT = "What was asked of models, by day, key and model: requests and tokens."
models_app.add_list("usage", _SERVED_ABOUT, "/served_tokens", resources.SERVED_TOKENS, filters=_SERVED)
_DELETE_MODEL = "Delete a fine-tuned model, or one checkpoint of it."
models_app.add_get("get", "One model.", "/models/{model}", resources.MODEL)


@models_app.add("export", has_json=False)
def export_model(
    here: "Session",
    model: Annotated[str, Argument(metavar="MODEL", help="A fine-tuned model or checkpoint, ft:...")],
    directory: Annotated[Path, Argument(metavar="DIR", help="A new directory.", file_okay=False)],
    is_merged: Annotated[
        bool, Option("--merged", help="The whole model instead of its adapter; needs the base model here.")
    ] = False,
    base: Annotated[
        str | None, Option("--base", metavar="DIR", help="Where the base model lies, for --merged.")
    ] = None,
) -> None:
    """Take a model with you: adapter or whole, with tokenizer, chat template and a model card."""
    from rft.platform.cli.export import export

    export(here, model, directory, is_merged=is_merged, base=base)
    here.note(f"wrote {directory}")


models_app.add_delete("delete", _DELETE_MODEL, "/models/{fine_tuned_model}")

permissions_app = Group("Checkpoint permissions: which projects may use a checkpoint.")
_PERMISSIONS = "/fine_tuning/checkpoints/{checkpoint}/permissions"
_PROJECT = {"project_id": only("--project", "Only of this project.")}
_LIST_PERMISSIONS = "A checkpoint's permissions, newest first."
permissions_app.add_list("list", _LIST_PERMISSIONS, _PERMISSIONS, resources.PERMISSION, filters=_PROJECT)


@permissions_app.add("create")
def create_permissions(
    here: "Session",
    checkpoint: Checkpoint,
    projects: Annotated[list[str], Argument(metavar="PROJECT...", help="Ids of projects.")],
) -> None:
    """Allow projects to use a checkpoint."""
    from rft.platform.cli.client import to_listing

    made = here.client.post(_PERMISSIONS.format(checkpoint=part(checkpoint)), {"project_ids": [*projects]})
    here.show_all(to_listing(made), resources.PERMISSION)


permissions_app.add_delete("delete", "Take a permission back.", f"{_PERMISSIONS}/{{permission}}")

rehearsals_app = Group("Rehearsals that the platform played.")
rehearsals_app.add_list("list", "Rehearsals, newest first.", "/rehearsals", resources.REHEARSAL)


@rehearsals_app.add("get")
def get_rehearsal(here: "Session", rehearsal_id: RehearsalId) -> None:
    """One rehearsal with its report."""
    from rft.platform.cli.rehearsals import show_report

    raw = here.client.get(f"/rehearsals/{part(rehearsal_id)}")
    here.show(raw, resources.REHEARSAL)
    report = Answer(raw).part("report")
    if report is not None and not here.as_json:
        show_report(report, here.out)


rehearsals_app.add_post(
    "cancel",
    "Break a rehearsal off; it has no report then.",
    "/rehearsals/{rehearsal_id}/cancel",
    lambda rehearsal: f"{rehearsal.need('id', str)}: {resources.rehearsal_state(rehearsal)}",
)

providers_app = Group("Providers: OpenAI-compatible endpoints, whose models are named PROVIDER/MODEL.")
_PROVIDER = "/providers/{provider_id}"
_CREATE_PROVIDER = "Register a provider: name, base_url, api_key; with `probe`, its address and key are tried first."
_UPDATE_PROVIDER = "Change the fields that BODY.json names; null takes one away."
providers_app.add_list("list", "Registered providers, newest first.", "/providers", resources.PROVIDER)
providers_app.add_get("get", "One registered provider.", _PROVIDER, resources.PROVIDER)
providers_app.add_post("create", _CREATE_PROVIDER, "/providers", resources.PROVIDER, body=BODY)
providers_app.add_post("update", _UPDATE_PROVIDER, _PROVIDER, resources.PROVIDER, body=BODY)
providers_app.add_delete("delete", "Forget a registered provider and its key.", _PROVIDER)

signing_app = Group("Secrets that calls to tools and graders are signed with.")
_SECRETS = "/signing_secrets"
signing_app.add_list("list", "Signing secrets without their values, newest first.", _SECRETS, resources.SIGNING_SECRET)
signing_app.add_post(
    "rotate",
    "Make a new secret and print it, this once. The old one stays valid until you retire it.",
    f"{_SECRETS}/rotate",
    "{id}  {secret}",
)
signing_app.add_delete(
    "retire", "Sign nothing with this secret any more.", f"{_SECRETS}/{{secret_id}}", "{id} is {status}"
)


def print_link(
    here: "Session",
    job_id: Annotated[
        str | None, Argument(metavar="[JOB]", help="ftjob-...: its page.", autocompletion=of_jobs)
    ] = None,
) -> None:
    """Print a link that signs one browser in to the dashboard, once, within 15 minutes."""
    from rft.platform.dashboard.links import moved

    raw = here.client.post("/dashboard/sign_in_links")
    # As we reach the platform: it may not know what a proxy calls it.
    root = here.client.address.base_url.removesuffix("/v1")
    url = moved(Answer(raw).need("url", str), root, "/" if job_id is None else f"/jobs/{part(job_id)}")
    here.show({**raw, "url": url}, "{url}")
