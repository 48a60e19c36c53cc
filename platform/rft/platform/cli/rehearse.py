"""`rft rehearse`: a job's burst at its tools and grader, from this machine, without a platform and without a model."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

from rft.core.base import JsonObject
from rft.core.dataset_lines import LineSplitter
from rft.platform.api.errors import BadRequest, Unavailable
from rft.platform.cli.inputs import CannotDo, read_body
from rft.platform.cli.rehearsals import Wanted, warn_of_unknown
from rft.platform.cli.session import console
from rft.platform.cli.transfer import progress_bar
from rft.platform.jobs.order_checks import unknown_fields
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.orders.grader_specification import refuse_unfillable_templates
from rft.platform.orders.redaction import redacted_method, secrets_of
from rft.platform.orders.references import GraderReference, ToolReference
from rft.platform.orders.schemas import JobCreate, JobOrder
from rft.platform.registry.resolution import validated
from rft.platform.rehearsals.planning import to_plan, to_spec
from rft.platform.rehearsals.repository import NewRehearsal
from rft.platform.rehearsals.sample import BadSample, read_sample
from rft.platform.rehearsals.schemas import UNNAMED
from rft.platform.settings import Settings, settings
from rft.rollouts.rehearsal import rehearse
from rft.rollouts.rehearsal_report import RehearsalReport

_GRADER = "method.reinforcement.grader"
_CHUNK_BYTES = 1 << 20


def rehearse_here(wanted: Wanted, *, as_json: bool) -> JsonObject:
    """The report of a rehearsal from this machine, with a progress bar unless it is for programs. Raises CannotDo."""
    order, rows_path = _read_order(wanted)
    unknown = unknown_fields(order)
    warn_of_unknown(unknown)
    report = asyncio.run(_report(wanted, order, rows_path, settings(), is_quiet=as_json))
    return {**report.model_dump(mode="json"), "unknown_fields": [*unknown]}


async def _report(
    wanted: Wanted, order: JobCreate, rows_path: Path, chosen: Settings, *, is_quiet: bool
) -> RehearsalReport:
    reinforcement = order.method.reinforcement
    try:
        refuse_unfillable_templates(reinforcement.grader, param=_GRADER)
        await refuse_bad_sources(reinforcement.grader, param=_GRADER)
        rows = await read_sample(_awaitable(_lines(rows_path)), tools=[tool.name for tool in reinforcement.tools or []])
        train_rows = max(len(rows), _count(rows_path))
    except (BadRequest, Unavailable) as error:
        raise CannotDo(f"{wanted.job}: {error.message}") from error
    except BadSample as error:
        raise CannotDo(f"{rows_path}: {error}") from error
    except OSError as error:
        raise CannotDo(f"{rows_path} cannot be read: {error.strerror}") from error
    plan = to_plan(
        reinforcement,
        chosen,
        train_rows=train_rows,
        calls_per_rollout=wanted.calls_per_rollout,
        max_rollouts=wanted.max_rollouts,
    )
    rehearsal = NewRehearsal(
        id=f"rehearsal-{secrets.token_hex(12)}",
        model=order.model,
        training_file=order.training_file,
        method=redacted_method(order.method),
        secrets=None,
        seed=0 if order.seed is None else order.seed,
        plan=plan,
    )
    columns = (MofNCompleteColumn(), TextColumn("rollouts"), TimeElapsedColumn())
    with progress_bar(console(stderr=True), "rehearsing", *columns, total=plan.rollouts, is_hidden=is_quiet) as move:
        spec, keys = to_spec(rehearsal, chosen), secrets_of(order.method)
        return await rehearse(rows, spec, plan, keys, on_rollout=lambda: move(advance=1))


def _read_order(wanted: Wanted) -> tuple[JobCreate, Path]:
    """The order, and where its rows are. Raises CannotDo, also for what only the platform knows."""
    try:
        document = read_body(str(wanted.job))
        rows = wanted.rows or _rows_beside(wanted.job, document)
        order: JsonObject = {"model": UNNAMED, **document, "training_file": str(rows)}
        _refuse_registered(validated(JobOrder, order), wanted.job)
        return validated(JobCreate, order), rows
    except OSError as error:
        raise CannotDo(f"{wanted.job} cannot be read: {error.strerror}") from error
    except BadRequest as error:
        raise CannotDo(f"{wanted.job}: {error.message}") from error


def _refuse_registered(order: JobOrder, job: Path) -> None:
    reinforcement = order.method.reinforcement
    for part in (*(reinforcement.tools or []), reinforcement.grader):
        if isinstance(part, ToolReference | GraderReference):
            kind = "tool" if isinstance(part, ToolReference) else "grader"
            raise CannotDo(f"{job} names a registered {kind} ({part.id}), which the platform alone knows: use --remote")


def _rows_beside(job: Path, document: JsonObject) -> Path:
    named = document.get("training_file")
    if isinstance(named, str) and (path := job.parent / named).is_file():
        return path
    raise CannotDo("no rows: give the dataset with --file")


def _lines(path: Path) -> Iterator[bytes]:
    """As the platform reads an uploaded file."""
    splitter = LineSplitter()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield from splitter.feed(chunk)
    yield from splitter.end()


async def _awaitable(lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


def _count(path: Path) -> int:
    return sum(1 for line in _lines(path) if line.strip())
