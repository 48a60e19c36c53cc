"""What an order's files and fields tell before a job exists."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from rft.platform.api.errors import BadRequest
from rft.platform.files.repository import FileRow
from rft.platform.jobs.schemas import JobCreate
from rft.platform.tools.schemas import Tool

_ALIASES = {Tool: {"url"}}
"""Other names of fields that we do know."""
_OURS = {"method.reinforcement.grader.id"}
"""Says which registered grader this one is a copy of."""


def refuse_undescribed_tools(tools: Sequence[Tool], files: Sequence[FileRow]) -> None:
    """A tool that nothing describes cannot be called by the model. Raises BadRequest naming the first.

    Files that were never read, or that no job can use, are judged when the job starts.
    """
    described: set[str] = set()
    for file in files:
        if file.report is None or not file.report.is_usable or not file.report.has_all_tools:
            return
        described.update(file.report.tools)
    for index, tool in enumerate(tools):
        if not tool.has_schema and tool.name not in described:
            raise BadRequest(
                f"No row of the files describes the tool '{tool.name}', so the model could not call it. Describe it in"
                " the rows' `tools`, or give the tool its own `description` and `parameters`.",
                param=f"method.reinforcement.tools[{index}].name",
                code="tool_not_described",
            )


def unknown_fields(order: JobCreate) -> list[str]:
    """Paths of the fields that mean nothing here: they are kept and echoed, and have no effect."""
    return sorted(set(_unknown(order, "")) - _OURS)


def _unknown(body: BaseModel, path: str) -> Iterator[str]:
    aliases = next((names for kind, names in _ALIASES.items() if isinstance(body, kind)), set[str]())
    yield from (f"{path}{name}" for name in body.model_extra or () if name not in aliases)
    for name in body.model_fields_set & type(body).model_fields.keys():
        yield from _unknown_below(getattr(body, name), f"{path}{name}")


def _unknown_below(value: object, path: str) -> Iterator[str]:
    match value:
        case BaseModel():
            yield from _unknown(value, f"{path}.")
        case list():
            for index, entry in enumerate(value):
                yield from _unknown_below(entry, f"{path}[{index}]")
        case dict():
            for key, entry in value.items():
                yield from _unknown_below(entry, f"{path}.{key}")
        case _:
            return
