"""Options that many commands share."""

from pathlib import Path
from typing import Annotated

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
JobId = Annotated[str, typer.Argument(metavar="JOB", help="ftjob-...", autocompletion=completing.jobs)]
Body = Annotated[str, typer.Argument(metavar="BODY.json", help="JSON file; `-`: standard input.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Where to write it; `-`: standard output.", dir_okay=False)
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
