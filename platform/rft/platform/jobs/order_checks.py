"""What an order's files and fields tell before a job exists."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel

from rft.core.dataset import MAX_VALID_ROWS
from rft.platform.api.errors import BadRequest
from rft.platform.files.repository import FileRow
from rft.platform.orders.grader_schemas import ONLY_IMAGE
from rft.platform.orders.grader_specification import leaves
from rft.platform.orders.references import GRADER_PREFIX, TOOL_PREFIX
from rft.platform.orders.schemas import JobCreate, JobOrder, Reinforcement
from rft.platform.orders.tool_schemas import Tool
from rft.platform.orders.unknown_fields import unknown_in

_GRADER_ID = "method.reinforcement.grader.id"
_EFFORT = "reasoning_effort"
MOST_NAMED = 50
"""Unknown fields that an event names; the order itself has them all."""
_NO_EFFECT = frozenset({"pass_threshold", "image_tag", _EFFORT})
"""Fields that we know, where a job has no use for them."""
_CLIP_LOW = ("epsilon",)
_CLIP_RANGE = (*_CLIP_LOW, "epsilon_high")
_NOTHING_WANTED = (None, "default", ONLY_IMAGE)


def refuse_undescribed_tools(tools: Sequence[Tool], files: Iterable[FileRow]) -> None:
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


def refuse_misdescribed_tools(files: Mapping[str, FileRow]) -> None:
    """A tool's schema that is none is known before the job is; other bad lines are the job's error, as the contract
    has it. Raises BadRequest naming the first line."""
    for param, file in files.items():
        problems = () if file.report is None else file.report.shown_problems
        found = next((problem for problem in problems if problem.path.startswith("tools")), None)
        if found is not None:
            raise BadRequest(
                f"The file '{file.id}' describes a tool wrongly: {found}.", param=param, code=f"invalid_{param}"
            )


def unusable_files(tools: Sequence[Tool], files: Mapping[str, FileRow]) -> Iterator[tuple[str, str]]:
    """What a job will fail for as soon as it reads its files, as far as uploads told: the field, and the reason."""
    names = {tool.name for tool in tools}
    for param, file in files.items():
        if file.report is None:
            continue
        stranger = next(((name, line) for name, line in file.report.tools.items() if names and name not in names), None)
        if file.report.problems:
            yield param, f"A job would fail: file {file.id} has {file.report.count}."
        elif param != "training_file" and file.report.rows > MAX_VALID_ROWS:
            most = f"{MAX_VALID_ROWS:,} at most here"
            yield param, f"A job would fail: file {file.id} has {file.report.rows:,} rows, {most}."
        elif stranger is not None:
            name, line = stranger
            yield param, f"A job would fail: line {line} of file {file.id} describes {name!r}, no tool of the order."


def unserved_tools(order: Reinforcement, described: Collection[str]) -> str | None:
    """What becomes of the functions that rows describe where the order has no tools at all; None: nobody need know."""
    if order.tools or not described:
        return None
    names = in_words(sorted(described))
    return (
        f"The job has no tools, so nobody answers what its rows describe ({names}): a rollout ends with the model's"
        " first calls of them, and graders judge these"
        + ("" if order.response_format is None else ". Calls alone do not fit the `response_format`")
    )


def unknown_fields(order: JobCreate | JobOrder) -> list[str]:
    """Paths of the fields that mean nothing here: they are kept and echoed, and have no effect."""
    reinforcement = order.method.reinforcement
    found = {field.path for field in unknown_in(order)}
    if str((reinforcement.grader.model_extra or {}).get("id", "")).startswith(GRADER_PREFIX):
        found.discard(_GRADER_ID)  # Says which registered grader this one is a copy of.
    for index, tool in enumerate(reinforcement.tools or []):
        if tool.id is not None and not tool.id.startswith(TOOL_PREFIX):
            found.add(f"method.reinforcement.tools[{index}].id")
    return sorted(found)


def in_words(paths: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    left_out = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {left_out:,} more" if left_out > 0 else "")


def fields_without_effect(
    order: JobCreate, *, has_thinking_switch: bool = False, has_thoughts: bool = True, is_weighted: bool = False
) -> list[str]:
    """Paths of the fields that we know and a job here has no use for.

    `has_thinking_switch`: the policy's chat template can be told how much to think. `has_thoughts`: its chat format
    marks thoughts. `is_weighted`: trainer and sampler may differ, so that there are weights to clip.
    """
    reinforcement = order.method.reinforcement
    used = {_EFFORT} if has_thinking_switch else set[str]()
    wanted = reinforcement.hyperparameters
    idle = [name for name in _unused(wanted) if name not in used]
    unclipped = _CLIP_RANGE if not is_weighted else _CLIP_LOW if reinforcement.loss_type == "cispo" else ()
    idle += [name for name in unclipped if getattr(wanted, name) != "auto"]
    idle += ["policy_pin"] if wanted.policy_pin == "turn" and wanted.max_staleness == 0 else []
    paths = [f"hyperparameters.{name}" for name in idle]
    graders = [f"{path}.{name}" for path, _, leaf in leaves(reinforcement.grader, "grader") for name in _unused(leaf)]
    if not has_thoughts and reinforcement.budgets is not None and reinforcement.budgets.max_reasoning_tokens:
        paths.append("budgets.max_reasoning_tokens")
    if reinforcement.early_stop is not None and order.validation_file is None:
        paths.append("early_stop")
    if reinforcement.baselines and order.validation_file is None:
        paths.append("baselines")
    whole = [f"grader.{name}" for name in _unused(reinforcement.grader)]
    return sorted({f"method.reinforcement.{path}" for path in (*paths, *graders, *whole)})


def _unused(body: BaseModel) -> Iterator[str]:
    fields = body.model_fields_set & type(body).model_fields.keys() & _NO_EFFECT
    yield from (name for name in fields if getattr(body, name) not in _NOTHING_WANTED)
