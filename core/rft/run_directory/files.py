"""What the trainer is handed: the specification and the rows, written whole or not at all."""

import os
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from rft.core.errors import RunFailed
from rft.core.secret_urls import take_secret_urls
from rft.core.spec import RunSecrets, RunSpec
from rft.run_directory import layout


def make_folder(folder: Path) -> None:
    """The directory, for our eyes only."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_spec(folder: Path, spec: RunSpec) -> None:
    """`spec.json`, whole or not at all."""
    with _replacing(folder / layout.SPEC) as file:
        file.write(spec.model_dump_json(indent=2).encode() + b"\n")


def read_spec(folder: Path) -> RunSpec:
    """Raises RunFailed."""
    try:
        return RunSpec.model_validate_json((folder / layout.SPEC).read_bytes())
    except (OSError, ValidationError) as error:
        raise RunFailed("invalid_spec", f"{layout.SPEC} cannot be read: {error}") from error


def redact_specs(runs: Path) -> int:
    """Take the URLs' secrets out of every `spec.json` that an earlier release wrote; how many had any.

    To be done before this host's worker runs anything: a job that goes on gets another `spec.json`.
    """
    redacted = 0
    for path in runs.glob(f"*/{layout.SPEC}"):
        try:
            spec = RunSpec.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue  # Of a release whose specification was another one; nobody can run it as it is.
        tools, grader, _ = take_secret_urls(spec.tools, spec.grader, RunSecrets())
        shown = spec.model_copy(update={"tools": tools, "grader": grader})
        if shown != spec:
            write_spec(path.parent, shown)
            redacted += 1
    return redacted


def has_rows(folder: Path) -> bool:
    """Whether the rows of this job were written before; they never change, and the files may be gone by now."""
    return (folder / layout.TRAIN_ROWS).exists()


def has_open_rollouts(folder: Path) -> bool:
    """Whether customers' servers may wait for the end of a rollout. Raises OSError."""
    path = folder / layout.OPEN_ROLLOUTS
    return path.exists() and path.stat().st_size > 0


async def write_rows(
    folder: Path,
    train: AsyncIterator[bytes],
    valid: AsyncIterator[bytes] | None,
    test: AsyncIterator[bytes] | None = None,
) -> None:
    """The files of rows, the training rows last: they stand for all."""
    for name, rows in ((layout.VALID_ROWS, valid), (layout.TEST_ROWS, test)):
        if rows is not None:
            await _copy(folder / name, rows)
    await _copy(folder / layout.TRAIN_ROWS, train)


async def _copy(path: Path, lines: AsyncIterator[bytes]) -> None:
    with _replacing(path) as file:
        async for line in lines:
            if line.strip():
                file.write(line + b"\n")


@contextmanager
def _replacing(path: Path) -> Generator[BinaryIO]:
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
