"""`rft rehearse`: a job's burst at its tools and grader, from this machine, without a platform and without a model."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import JsonValue
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.errors import RftError
from rft.core.spec import RunSecrets, RunSpec
from rft.platform.api.errors import BadRequest, Unavailable
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.orders.redaction import redacted_method, secrets_of
from rft.platform.orders.schemas import JobCreate
from rft.platform.registry.resolution import validated
from rft.platform.rehearsals.planning import to_plan, to_spec
from rft.platform.rehearsals.repository import NewRehearsal
from rft.platform.rehearsals.sample import BadSample, read_sample
from rft.platform.rehearsals.schemas import UNNAMED
from rft.platform.settings import Settings
from rft.rollouts.rehearsal import rehearse
from rft.rollouts.rehearsal_report import RehearsalPlan, RehearsalReport


class CannotRehearse(RftError):
    """The job or its rows cannot be read, or are wrong."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says."""

    job: Path
    """A JSON file with the body of the job's order."""
    rows: Path | None
    """None: the order's `training_file` is a path, as seen from the order."""
    calls_per_rollout: int | None = None
    max_rollouts: int | None = None


def run_rehearsal(wanted: Wanted, settings: Settings, *, is_quiet: bool) -> RehearsalReport:
    """Rehearse from this machine, with a progress bar unless quiet. Raises CannotRehearse."""
    return asyncio.run(_run(wanted, settings, is_quiet=is_quiet))


async def _run(wanted: Wanted, settings: Settings, *, is_quiet: bool) -> RehearsalReport:
    order, rows_path = _read_order(wanted)
    reinforcement = order.method.reinforcement
    try:
        await refuse_bad_sources(reinforcement.grader, param="method.reinforcement.grader")
        rows = await read_sample(_lines(rows_path), tools=[tool.name for tool in reinforcement.tools or []])
        train_rows = max(len(rows), _count(rows_path))
    except (BadRequest, Unavailable) as error:
        raise CannotRehearse(f"{wanted.job}: {error.message}") from error
    except BadSample as error:
        raise CannotRehearse(f"{rows_path}: {error}") from error
    except OSError as error:
        raise CannotRehearse(f"{rows_path} cannot be read: {error.strerror}") from error
    plan = to_plan(
        reinforcement,
        settings,
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
    return await _watched(to_spec(rehearsal, settings), plan, rows, secrets_of(order.method), is_quiet=is_quiet)


async def _watched(
    spec: RunSpec, plan: RehearsalPlan, rows: list[DatasetRow], secrets: RunSecrets, *, is_quiet: bool
) -> RehearsalReport:
    columns = (TextColumn("rehearsing"), BarColumn(), MofNCompleteColumn(), TextColumn("rollouts"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=is_quiet, transient=True) as progress:
        bar = progress.add_task("", total=plan.rollouts)

        def advance() -> None:
            progress.advance(bar)

        return await rehearse(rows, spec, plan, secrets, on_rollout=advance)


def _read_order(wanted: Wanted) -> tuple[JobCreate, Path]:
    """The order, and where its rows are."""
    try:
        document = cast("JsonValue", json.loads(wanted.job.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise CannotRehearse(f"{wanted.job} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CannotRehearse(f"{wanted.job} is not JSON: {error}") from error
    except RecursionError as error:
        raise CannotRehearse(f"{wanted.job} is nested too deeply") from error
    if not isinstance(document, dict):
        raise CannotRehearse(f"{wanted.job} must hold the body of a job's order, a JSON object")
    rows = wanted.rows or _rows_beside(wanted.job, document)
    try:
        return validated(JobCreate, {"model": UNNAMED, **document, "training_file": str(rows)}), rows
    except BadRequest as error:
        raise CannotRehearse(f"{wanted.job}: {error.message}") from error


def _rows_beside(job: Path, document: JsonObject) -> Path:
    named = document.get("training_file")
    if isinstance(named, str) and (path := job.parent / named).is_file():
        return path
    raise CannotRehearse("no rows: give the dataset with --file")


async def _lines(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            yield line


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
