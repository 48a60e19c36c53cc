"""Arguments and options that many commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rft.platform.cli import completing

BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="The platform, ending in /v1 (default: RFT_BASE_URL, or the one `rft up` runs)."),
]
ApiKey = Annotated[str | None, typer.Option("--api-key", help="Its key (default: RFT_API_KEY).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what the API answered, and nothing else.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]
After = Annotated[str | None, typer.Option("--after", metavar="ID", help="Go on after this one.")]
FromStep = Annotated[int | None, typer.Option("--from-step", min=0, help="First step of the window.")]
ToStep = Annotated[int | None, typer.Option("--to-step", min=0, help="Last step of the window.")]
Body = Annotated[str, typer.Argument(metavar="BODY.json", help="JSON file; `-`: standard input.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Where to write it; `-`: standard output.", dir_okay=False)
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
HomeOption = Annotated[Path | None, typer.Option("--home", help="Data directory (default: RFT_HOME).")]

JobId = Annotated[str, typer.Argument(metavar="JOB", help="ftjob-...", autocompletion=completing.jobs)]
FileId = Annotated[str, typer.Argument(metavar="FILE", help="file-...", autocompletion=completing.files)]
ToolId = Annotated[
    str, typer.Argument(metavar="TOOL", help="The registered tool's id.", autocompletion=completing.tools)
]
GraderId = Annotated[
    str, typer.Argument(metavar="GRADER", help="The registered grader's id.", autocompletion=completing.graders)
]
Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="ft:... or ft:...:ckpt-step-N")]
RehearsalId = Annotated[
    str, typer.Argument(metavar="REHEARSAL", help="rehearsal-...", autocompletion=completing.rehearsals)
]

PATH_ARGUMENTS: dict[str, Any] = {
    "job_id": JobId,
    "file_id": FileId,
    "tool_id": ToolId,
    "grader_id": GraderId,
    "rehearsal_id": RehearsalId,
    "checkpoint": Checkpoint,
    "permission": Annotated[str, typer.Argument(metavar="PERMISSION", help="cp_...")],
    "model": Annotated[str, typer.Argument(metavar="MODEL", help="A name from the list.")],
    "fine_tuned_model": Annotated[str, typer.Argument(metavar="MODEL", help="ft:...")],
    "secret_id": Annotated[str, typer.Argument(metavar="ID", help="sigsec_...")],
}
"""What a command takes for each name in the path that it calls."""
