"""What was found in a job's files: what keeps the job from using them, and what is worth knowing before. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from rft.core.base import JsonObject
from rft.core.dataset_report import DatasetCheck, DatasetReport, EqualRows, shared_rows
from rft.platform.jobs.order_checks import unserved_tools
from rft.platform.lifecycle.records import JobError
from rft.platform.orders.schemas import Reinforcement

_NAMED = 10
"""Lines that a warning names."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """One of the job's files, and what is in it."""

    param: str
    file_id: str
    check: DatasetCheck
    report: DatasetReport | None
    """None when the file is gone."""
    damage: str | None = None
    """In what the bytes are not those that were uploaded."""

    @property
    def label(self) -> str:
        """What events call it."""
        return self.param.replace("_", " ")


@dataclass(frozen=True, slots=True)
class DatasetWarning:
    """Something about the files that is worth knowing before the run, and stops nothing."""

    key: str
    message: str
    data: JsonObject


def dataset_warnings(files: Sequence[FileRead], order: Reinforcement, context: int | None) -> Iterator[DatasetWarning]:
    """Rows that are there twice, rows that are in two files, rows that may not fit the model, tools without a use."""
    for file in files:
        if file.report is not None and file.report.duplicates:
            yield _duplicates(file, file.report)
        if file.report is not None and file.report.too_long:
            yield _too_long(file, file.report, context or 0)
    for first, second in combinations(files, 2):
        shared = shared_rows(first.check, second.check)
        if shared:
            yield _shared(shared, first, second)
    yield from _unused_tools(order, {name for file in files if file.report is not None for name in file.report.tools})


def _duplicates(file: FileRead, report: DatasetReport) -> DatasetWarning:
    pairs = ", ".join(f"{pair.line} = {pair.same_as}" for pair in report.shown_duplicates[:_NAMED])
    return DatasetWarning(
        key=f"duplicates:{file.param}",
        message=f"{report.duplicates} rows of the {file.label} repeat an earlier one (lines {pairs}"
        f"{', ...' if report.duplicates > _NAMED else ''})",
        data={"code": "duplicate_rows", "param": file.param, "count": report.duplicates},
    )


def _shared(shared: Sequence[EqualRows], first: FileRead, second: FileRead) -> DatasetWarning:
    pairs = ", ".join(f"{pair.line} = {pair.same_as}" for pair in shared[:_NAMED])
    rewards = second.label.removesuffix(" file")
    return DatasetWarning(
        key=f"shared:{first.param}:{second.param}",
        message=f"{len(shared)} rows of the {second.label} are in the {first.label}, too (lines {pairs}"
        f"{', ...' if len(shared) > _NAMED else ''}): {rewards} rewards will look better than they are",
        data={"code": "shared_rows", "param": second.param, "count": len(shared)},
    )


def _too_long(file: FileRead, report: DatasetReport, context: int) -> DatasetWarning:
    lines = ", ".join(map(str, report.shown_too_long[:_NAMED])) + (", ..." if report.too_long > _NAMED else "")
    return DatasetWarning(
        key=f"too-long:{file.param}",
        message=f"{report.too_long} rows of the {file.label} look longer than the model's context of {context} tokens"
        f" (lines {lines}); the trainer counts exactly and leaves out those that are",
        data={"code": "rows_may_be_too_long", "param": file.param, "count": report.too_long},
    )


def _unused_tools(order: Reinforcement, described: set[str]) -> Iterator[DatasetWarning]:
    tools = order.tools or []
    if (unserved := unserved_tools(order, described)) is not None:
        names = sorted(described)[:_NAMED]
        yield DatasetWarning("unserved", unserved, {"code": "unserved_tools", "unserved_tools": [*names]})
    unused = [tool.name for tool in tools if not tool.has_schema and tool.name not in described]
    if unused:
        yield DatasetWarning(
            key="unused",
            message=f"No row describes these tools of the job, so the model will not know of them: {', '.join(unused)}",
            data={"code": "unused_tools", "unused_tools": [*unused]},
        )


def dataset_error(files: Sequence[FileRead]) -> JobError | None:
    """What is wrong with the files, all of it; blamed on the first of them. None when they can be used."""
    bad = [(file, problem) for file in files if (problem := _problem(file)) is not None]
    if not bad:
        return None
    param = bad[0][0].param
    return JobError(code=f"invalid_{param}", message="\n".join(problem for _, problem in bad), param=param)


def _problem(file: FileRead) -> str | None:
    if file.report is None:
        return f"File {file.file_id} was deleted or has expired."
    if file.damage is not None:
        return f"File {file.file_id} is damaged: {file.damage}. Upload it again."
    if file.report.problems:
        return f"File {file.file_id} has {file.report.summary()}"
    return None if file.report.rows else f"File {file.file_id} holds no rows."
