"""What a shell offers after TAB: ids of what the platform has. Whatever goes wrong there offers nothing, in silence.

Names of models are not offered: shells break words at their colons.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rft.core.base import JsonObject

_OFFERED = 100
_PATIENCE_S = 3.0
Offer = tuple[str, str]
"""An id, and what shells that can show it say beside it."""


def jobs(context: typer.Context, begun: str) -> list[Offer]:
    """Jobs, newest first."""
    return _offers(context, begun, "/fine_tuning/jobs", lambda job: f"{job.get('status')} {job.get('model')}")


def files(context: typer.Context, begun: str) -> list[Offer]:
    """Files, newest first."""
    return _offers(context, begun, "/files", lambda file: str(file.get("filename")))


def tools(context: typer.Context, begun: str) -> list[Offer]:
    """Registered tools."""
    return _offers(context, begun, "/tools", lambda tool: str(tool.get("name")))


def graders(context: typer.Context, begun: str) -> list[Offer]:
    """Registered graders."""
    return _offers(context, begun, "/graders", lambda grader: str(grader.get("name")))


def rehearsals(context: typer.Context, begun: str) -> list[Offer]:
    """Rehearsals, newest first."""
    return _offers(context, begun, "/rehearsals", lambda rehearsal: str(rehearsal.get("status")))


def _offers(context: typer.Context, begun: str, path: str, say: "Callable[[JsonObject], str]") -> list[Offer]:
    from rft.platform.cli.client import Client
    from rft.platform.cli.formats import one_line
    from rft.platform.cli.session import find_address

    typed: Mapping[str, object] = context.params
    try:
        address = find_address(_text(typed.get("base_url")), _text(typed.get("api_key")))
        with Client(address, timeout_s=_PATIENCE_S) as client:
            found = client.listed(path, limit=_OFFERED).found
    except Exception:  # A traceback in the middle of somebody's command line helps nobody.
        return []
    ids = [(one_line(str(entry.get("id"))), one_line(say(entry), limit=60)) for entry in found]
    return [(id_, description) for id_, description in ids if id_.startswith(begun)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
