"""Arguments and options that many commands share, and what a shell offers for them after TAB: ids of what there is."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from rft.platform.cli.formats import one_line
from rft.platform.cli.inputs import JOBS

_OFFERED = 100
_PATIENCE_S = 3.0


def ids(path: str, *described: str) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Ids of the list at a path that begin as typed, each with values that describe it. Nothing, in silence, where
    something goes wrong: a traceback in the middle of a command line helps nobody.
    """

    def offered(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        from rft.platform.cli.address import find_address
        from rft.platform.cli.client import Client

        try:
            address = find_address(context.params.get("base_url"), context.params.get("api_key"))
            with Client(address, timeout_s=_PATIENCE_S) as client:
                found = client.listed(path, limit=_OFFERED).found
        except Exception:
            return []
        offers = [(one_line(str(one.get("id"))), " ".join(str(one.get(name)) for name in described)) for one in found]
        return [(id_, one_line(text, limit=60)) for id_, text in offers if id_.startswith(incomplete)]

    return offered


def only(flag: str, about: str, kind: Any = str, **more: Any) -> Any:
    """An option that narrows a list, and says nothing unless it is given."""
    return Annotated[kind | None, Option(flag, help=about, **more)]


BaseUrl = Annotated[
    str | None,
    Option(
        "--base-url",
        envvar="RFT_BASE_URL",
        show_envvar=False,
        help="The platform, ending in /v1 (default: RFT_BASE_URL, or the one `rft up` runs).",
    ),
]
ApiKey = Annotated[
    str | None,
    Option("--api-key", envvar="RFT_API_KEY", show_envvar=False, help="Its key (default: RFT_API_KEY)."),
]
AsJson = Annotated[bool, Option("--json", help="Print what the API answered, and nothing else.")]
Limit = Annotated[int, Option("--limit", min=1, help="How many at most.")]
After = Annotated[str | None, Option("--after", metavar="ID", help="Go on after this one.")]
Split = Annotated[Literal["train", "valid", "test"] | None, Option("--split", help="Only of these rows.")]
FromStep = Annotated[int | None, Option("--from-step", min=0, help="First step of the window.")]
ToStep = Annotated[int | None, Option("--to-step", min=0, help="Last step of the window.")]
Body = Annotated[str, Argument(metavar="BODY.json", help="JSON file; `-`: standard input.")]
GraderBody = Annotated[str, Argument(metavar="GRADER.json", help="The grader as JSON; `-`: standard input.")]
Output = Annotated[
    Path | None, Option("--output", "-o", help="Where to write it; `-`: standard output.", dir_okay=False)
]
Force = Annotated[bool, Option("--force", help="Overwrite what is there.")]
HomeOption = Annotated[Path | None, Option("--home", help="Data directory (default: RFT_HOME).")]

of_jobs = ids(JOBS, "status", "model")
JobId = Annotated[str, Argument(metavar="JOB", help="ftjob-...", autocompletion=of_jobs)]
FileId = Annotated[str, Argument(metavar="FILE", help="file-...", autocompletion=ids("/files", "filename"))]
ToolId = Annotated[
    str, Argument(metavar="TOOL", help="The registered tool's id.", autocompletion=ids("/tools", "name"))
]
GraderId = Annotated[
    str, Argument(metavar="GRADER", help="The registered grader's id.", autocompletion=ids("/graders", "name"))
]
ProviderId = Annotated[str, Argument(metavar="PROVIDER", help="provider_...", autocompletion=ids("/providers", "name"))]
Checkpoint = Annotated[str, Argument(metavar="CHECKPOINT", help="ft:... or ft:...:ckpt-step-N")]
RehearsalId = Annotated[
    str, Argument(metavar="REHEARSAL", help="rehearsal-...", autocompletion=ids("/rehearsals", "status"))
]
EvalId = Annotated[str, Argument(metavar="EVAL", help="eval_...", autocompletion=ids("/evals", "name"))]
EvalRunId = Annotated[str, Argument(metavar="RUN", help="evalrun_...")]

IN_PATHS: dict[str, Any] = {
    "job_id": JobId,
    "file_id": FileId,
    "tool_id": ToolId,
    "grader_id": GraderId,
    "rehearsal_id": RehearsalId,
    "provider_id": ProviderId,
    "eval_id": EvalId,
    "run_id": EvalRunId,
    "checkpoint": Checkpoint,
    "permission": Annotated[str, Argument(metavar="PERMISSION", help="cp_...")],
    # Names of models are not offered: shells break words at their colons.
    "model": Annotated[str, Argument(metavar="MODEL", help="A name from the list.")],
    "fine_tuned_model": Annotated[str, Argument(metavar="MODEL", help="ft:...")],
    "secret_id": Annotated[str, Argument(metavar="ID", help="sigsec_...")],
}
"""What a command takes for each name in the path that it calls."""
