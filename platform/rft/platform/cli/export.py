"""`rft models export`: a model's files, whole or not at all."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from rft.platform.cli.inputs import CannotDo, part
from rft.platform.cli.session import Session
from rft.platform.cli.transfer import progress_bar, sizes


def export(here: Session, model: str, directory: Path, *, is_merged: bool, base: str | None) -> None:
    """Into a directory that is new or empty. Raises CannotDo, PlatformProblem, OSError."""
    if directory.exists() and any(directory.iterdir()):
        raise CannotDo(f"{directory} is not empty; name another directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
        adapter = Path(scratch) / "adapter"
        _fetch(here, model, Path(scratch) / "adapter.zip", adapter)
        whole = Path(scratch) / "whole"
        if is_merged:
            _merge(adapter, whole, base)
            shutil.copyfile(adapter / "README.md", whole / "README.md")
        if directory.exists():
            directory.rmdir()
        (whole if is_merged else adapter).replace(directory)


def _fetch(here: Session, model: str, archive: Path, target: Path) -> None:
    with progress_bar(here.err, model, *sizes()) as move, archive.open("wb") as file:
        here.client.download(f"/models/{part(model)}/adapter", file, lambda count: move(advance=count))
    with zipfile.ZipFile(archive) as files:
        files.extractall(target)


def _merge(adapter: Path, target: Path, base: str | None) -> None:
    """In a process of the trainer's environment."""
    command = [sys.executable, "-m", "rft.engines.merged_export", str(adapter), str(target)]
    done = subprocess.run(
        [*command, *(() if base is None else ("--base", base))], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise CannotDo(f"the adapter could not be merged into its base model here: {said[-1]}")
