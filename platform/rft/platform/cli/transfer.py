"""What takes a while, with a progress bar: files on their way, and what is waited for."""

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from rich import progress
from rich.console import Console

from rft.core.base import JsonObject
from rft.platform.cli.answers import Answer
from rft.platform.cli.client import ConnectionLost, PlatformProblem
from rft.platform.cli.formats import counted, one_line
from rft.platform.cli.inputs import CannotDo, part
from rft.platform.cli.session import Session

STANDARD_OUTPUT = Path("-")
_LONGEST_NAME = 240
"""Bytes; file systems take 255, and a download has a longer name until it is whole."""
_POLL_S = 0.5
_POLLS_IN_VAIN = 120
"""A platform that restarts ends nobody's waiting."""
_UNFINISHED = ("queued", "running", "in_progress")


@contextmanager
def progress_bar(
    console: Console, what: str, *columns: progress.ProgressColumn, total: float | None = None, is_hidden: bool = False
) -> Generator[Callable[..., None]]:
    """A bar that is moved by `advance=`, or by `completed=` and `total=`; only a terminal sees it."""
    all_columns = (progress.TextColumn("{task.description}", markup=False), progress.BarColumn(), *columns)
    is_hidden = is_hidden or not console.is_terminal
    with progress.Progress(*all_columns, console=console, disable=is_hidden, transient=True) as bar:
        yield partial(bar.update, bar.add_task(one_line(what, limit=40), total=total))


def wait_for_end(here: Session, what: str, raw: JsonObject, path: str) -> JsonObject:
    """The object at a path once it is neither queued nor being worked on, with a bar meanwhile."""
    in_vain = 0
    with progress_bar(here.err, what, progress.MofNCompleteColumn(), is_hidden=here.as_json) as move:
        while (now := Answer(raw)).need("status", str) in _UNFINISHED:
            move(completed=now.get("done", int) or 0, total=now.get("total", int))
            time.sleep(_POLL_S)
            try:
                raw, in_vain = here.client.get(path), 0
            except ConnectionLost:
                in_vain += 1
                if in_vain > _POLLS_IN_VAIN:
                    raise
    return raw


def sizes() -> tuple[progress.ProgressColumn, ...]:
    """Columns of what has a size."""
    return progress.DownloadColumn(), progress.TransferSpeedColumn(), progress.TimeRemainingColumn()


def upload(here: Session, path: Path, purpose: str = "fine-tune", expires_after_s: int | None = None) -> JsonObject:
    """Send a file; what the platform made of it. Raises PlatformProblem and OSError."""
    fields = {"purpose": purpose}
    if expires_after_s is not None:
        fields |= {"expires_after[anchor]": "created_at", "expires_after[seconds]": str(expires_after_s)}
    with progress_bar(here.err, path.name, *sizes(), total=path.stat().st_size, is_hidden=here.as_json) as move:
        return here.client.upload(path, fields, lambda count: move(advance=count))


@contextmanager
def uploading_for_order(here: Session, purpose: str = "fine-tune") -> Generator[Callable[[Path], str]]:
    """Sends files for one order, gives their ids; deletes them again where the order is refused."""
    sent: list[str] = []

    def send(path: Path) -> str:
        made = Answer(upload(here, path, purpose))
        sent.append(made.need("id", str))
        if problems := made.find("dataset.problems", int):
            here.warn(f"{path} has {counted(problems, 'problem')}: `rft files problems {sent[-1]}` shows every one")
        return sent[-1]

    try:
        yield send
    except ConnectionLost:
        if sent:
            here.note(f"uploaded and kept, as the order may have been taken: {', '.join(sent)}")
        raise
    except (PlatformProblem, CannotDo, OSError, KeyboardInterrupt):
        for file_id in sent:
            try:
                here.client.delete(f"/files/{part(file_id)}")
            except PlatformProblem as problem:
                here.note(f"{file_id} was uploaded and is left: {problem}")
        raise


def download(here: Session, file_id: str, output: Path | None, *, may_overwrite: bool) -> Path:
    """Write a file's content, whole or not at all; to standard output as it comes. Raises CannotDo."""
    path = f"/files/{part(file_id)}"
    file = Answer(here.client.get(path))
    name, size = file.need("filename", str), file.need("bytes", int)

    def fetch(target: BinaryIO) -> None:
        is_hidden = target is sys.stdout.buffer
        with progress_bar(here.err, name, *sizes(), total=size, is_hidden=is_hidden) as move:
            here.client.download(f"{path}/content", target, lambda count: move(advance=count))

    output = output or Path(local_name(name, file_id))
    if output == STANDARD_OUTPUT:
        fetch(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return output
    if output.exists() and not output.is_file():  # A device or a pipe: nothing to overwrite, and never to replace.
        with output.open("wb") as target:
            fetch(target)
        return output
    if output.exists() and not may_overwrite:
        raise CannotDo(f"{output} exists; --force overwrites it, --output names another place")
    place = output.resolve()  # A link stays one.
    beside = place.with_name(f".{place.name}.part")
    try:
        with beside.open("wb") as target:
            fetch(target)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
    return output


def local_name(name: str, otherwise: str) -> str:
    """The file's name as one in a directory here, whatever it is called elsewhere; `otherwise` where that is none."""
    last = Path(name.replace("\\", "/")).name.lstrip(".")
    printable = "".join(letter for letter in last if letter.isprintable())
    return printable if 0 < len(os.fsencode(printable)) <= _LONGEST_NAME else otherwise
