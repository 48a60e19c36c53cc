"""Files on their way, with a progress bar."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from rft.core.base import JsonObject
from rft.platform.cli.answers import Answer
from rft.platform.cli.client import ConnectionLost, PlatformProblem, part
from rft.platform.cli.formats import one_line
from rft.platform.cli.session import CannotDo, Session

STANDARD_OUTPUT = Path("-")


@contextmanager
def moving(console: Console, what: str, total: int, *, is_quiet: bool) -> Generator[Callable[[int], None]]:
    """A bar that is told of every piece; only a terminal sees it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    hidden = is_quiet or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as progress:
        bar = progress.add_task(one_line(what, limit=40).replace("[", "\\["), total=total)

        def advance(count: int) -> None:
            progress.advance(bar, count)

        yield advance


def upload(here: Session, path: Path, purpose: str, expires_after_s: int | None = None) -> JsonObject:
    """Send a file; what the platform made of it. Raises PlatformProblem and OSError."""
    fields = {"purpose": purpose}
    if expires_after_s is not None:
        fields |= {"expires_after[anchor]": "created_at", "expires_after[seconds]": str(expires_after_s)}
    with moving(here.err, path.name, path.stat().st_size, is_quiet=here.as_json) as on_bytes:
        return here.client.upload(path, fields, on_bytes)


@contextmanager
def uploading_for_order(here: Session) -> Generator[Callable[[Path], str]]:
    """Sends files for one order, gives their ids; deletes them again where the order is refused."""
    sent: list[str] = []

    def send(path: Path) -> str:
        sent.append(Answer(upload(here, path, "fine-tune")).need("id", str))
        return sent[-1]

    try:
        yield send
    except ConnectionLost:
        if sent:
            here.note(f"uploaded and kept, as the order may have been taken: {', '.join(sent)}")
        raise
    except (PlatformProblem, CannotDo, OSError, KeyboardInterrupt):
        for file_id in sent:
            _take_back(here, file_id)
        raise


def _take_back(here: Session, file_id: str) -> None:
    try:
        here.client.delete(f"/files/{part(file_id)}")
    except PlatformProblem as problem:
        here.note(f"{file_id} was uploaded and is left: {problem}")


def download(here: Session, file: Answer, output: Path, *, may_overwrite: bool) -> None:
    """Write a file's content, whole or not at all; to standard output as it comes. Raises CannotDo."""
    if output == STANDARD_OUTPUT:
        _fetch(here, file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if output.exists() and not may_overwrite:
        raise CannotDo(f"{output} exists; --force overwrites it, --output names another place")
    beside = output.with_name(f".{output.name}.part")
    try:
        with beside.open("wb") as target:
            _fetch(here, file, target)
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)


def _fetch(here: Session, file: Answer, target: BinaryIO) -> None:
    name, size = file.need("filename", str), file.need("bytes", int)
    with moving(here.err, name, size, is_quiet=target is sys.stdout.buffer) as on_bytes:
        here.client.download(f"/files/{part(file.need('id', str))}/content", target, on_bytes)


def local_name(file: Answer) -> Path:
    """The file's name as one in the current directory, whatever the platform calls it."""
    name = Path(file.need("filename", str).replace("\\", "/")).name.lstrip(".")
    return Path("".join(letter for letter in name if letter.isprintable()) or file.need("id", str))
