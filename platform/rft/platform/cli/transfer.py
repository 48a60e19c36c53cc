"""Files on their way, with a progress bar."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from rft.core.base import JsonObject
from rft.platform.cli.answers import Answer
from rft.platform.cli.client import ConnectionLost, PlatformProblem
from rft.platform.cli.formats import one_line
from rft.platform.cli.inputs import CannotDo, part
from rft.platform.cli.session import Session

STANDARD_OUTPUT = Path("-")


@contextmanager
def moving(here: Session, what: str, total: int, *, is_quiet: bool) -> Generator[Callable[[int], None]]:
    """A bar that is told of every piece; only a terminal sees it."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    hidden = is_quiet or not here.err.is_terminal
    name = TextColumn("{task.description}", markup=False)
    with Progress(name, *columns, console=here.err, disable=hidden, transient=True) as progress:
        bar = progress.add_task(one_line(what, limit=40), total=total)
        yield lambda count: progress.advance(bar, count)


def upload(here: Session, path: Path, purpose: str = "fine-tune", expires_after_s: int | None = None) -> JsonObject:
    """Send a file; what the platform made of it. Raises PlatformProblem and OSError."""
    fields = {"purpose": purpose}
    if expires_after_s is not None:
        fields |= {"expires_after[anchor]": "created_at", "expires_after[seconds]": str(expires_after_s)}
    with moving(here, path.name, path.stat().st_size, is_quiet=here.as_json) as on_bytes:
        return here.client.upload(path, fields, on_bytes)


@contextmanager
def uploading_for_order(here: Session) -> Generator[Callable[[Path], str]]:
    """Sends files for one order, gives their ids; deletes them again where the order is refused."""
    sent: list[str] = []

    def send(path: Path) -> str:
        sent.append(Answer(upload(here, path)).need("id", str))
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
        with moving(here, name, size, is_quiet=target is sys.stdout.buffer) as on_bytes:
            here.client.download(f"{path}/content", target, on_bytes)

    output = output or _local_name(name, file_id)
    if output == STANDARD_OUTPUT:
        fetch(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return output
    if output.exists() and not may_overwrite:
        raise CannotDo(f"{output} exists; --force overwrites it, --output names another place")
    beside = output.with_name(f".{output.name}.part")
    try:
        with beside.open("wb") as target:
            fetch(target)
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)
    return output


def _local_name(name: str, otherwise: str) -> Path:
    """The file's name as one in the current directory, whatever the platform calls it."""
    last = Path(name.replace("\\", "/")).name.lstrip(".")
    return Path("".join(letter for letter in last if letter.isprintable()) or otherwise)
