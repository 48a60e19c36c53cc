"""An export of the hosted Evals service, as a folder or a zip of one, verified before anything of it is used."""

import hashlib
import json
import re
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.platform.cli.answers import Answer
from rft.platform.cli.inputs import CannotDo, to_object

_MANIFEST = "manifest.json"
_FORMAT = "evals-export/1"
_CHUNK_BYTES = 1 << 20
_SHOWN = 3

Place: TypeAlias = Path | zipfile.Path


class BrokenExport(RftError):
    """The export is not what was written when it was made."""


@dataclass(frozen=True, slots=True)
class Export:
    """What an export holds. Every method raises BrokenExport where a document is none."""

    root: Place
    manifest: JsonObject

    def eval_ids(self) -> list[str]:
        """In the order of the service's list."""
        return list(self._listed("evals"))

    def run_ids(self, eval_id: str) -> list[str]:
        """The runs of an eval."""
        run_ids = self._listed("evals").get(eval_id)
        return [str(run_id) for run_id in run_ids] if isinstance(run_ids, list) else []

    def evaluation(self, eval_id: str) -> JsonObject | None:
        """An eval as the service answered it; None where it was deleted before it was read."""
        return self._document(f"evals/{_file_name(eval_id)}.json")

    def run(self, run_id: str) -> JsonObject | None:
        """A run as the service answered it."""
        return self._document(f"runs/{_file_name(run_id)}.json")

    def items(self, run_id: str) -> Iterator[JsonObject]:
        """The output items of a run, in the service's order."""
        path = f"items/{_file_name(run_id)}.jsonl"
        if path not in self._listed("files"):
            return
        with (self.root / path).open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _object(line, f"{path}, line {number}")

    @contextmanager
    def file(self, file_id: str) -> Generator[tuple[str, BinaryIO] | None]:
        """A file's name and content; None where the export has none, because nobody was given it."""
        if not self.has_file(file_id):
            yield None
            return
        path = f"files/{_file_name(file_id)}"
        name = Answer(self._document(f"{path}.json") or {}).find("filename", str)
        with (self.root / path).open("rb") as content:
            yield name or f"{file_id}.jsonl", cast("BinaryIO", content)

    def has_file(self, file_id: str) -> bool:
        """Whether its content was handed out."""
        return f"files/{_file_name(file_id)}" in self._listed("files")

    def why_missing(self, thing_id: str) -> str | None:
        """What the export tells of an eval, run or file that it could not read."""
        whys = (self._listed(kind).get(thing_id) for kind in ("gone", "refused", "failed"))
        return next((why for why in whys if isinstance(why, str)), None)

    def why_gone(self, thing_id: str) -> str | None:
        """How the service answered for an eval or run that the export noted as deleted, also where some of it came."""
        why = self._listed("gone").get(thing_id)
        return why if isinstance(why, str) else None

    def _document(self, path: str) -> JsonObject | None:
        return _object((self.root / path).read_bytes(), path) if path in self._listed("files") else None

    def _listed(self, kind: str) -> JsonObject:
        """What the manifest holds of a kind, by id or path."""
        return Answer(self.manifest).find(kind, dict) or {}


@contextmanager
def open_export(source: Path, *, may_be_incomplete: bool = False) -> Generator[Export]:
    """The export in a folder or a zip, each of its files compared with its hash. Raises BrokenExport and CannotDo."""
    if source.is_dir():
        yield _verified(source, source, may_be_incomplete=may_be_incomplete)
        return
    try:
        with zipfile.ZipFile(source) as archive:
            yield _verified(source, _root_in(archive, source), may_be_incomplete=may_be_incomplete)
    except zipfile.BadZipFile as problem:
        raise BrokenExport(f"{source} is neither a folder nor a whole zip file: {problem}") from problem


def _root_in(archive: zipfile.ZipFile, source: Path) -> zipfile.Path:
    """Where the manifest lies: on top, or in the one folder that was packed."""
    found = [name for name in archive.namelist() if Path(name).name == _MANIFEST and name.count("/") <= 1]
    if len(found) != 1:
        how_many = "no" if not found else "more than one"
        raise CannotDo(f"{source} holds {how_many} {_MANIFEST}: is it an export of examples/evals_export.py?")
    return zipfile.Path(archive, found[0].removesuffix(_MANIFEST))


def _verified(source: Path, root: Place, *, may_be_incomplete: bool) -> Export:
    if not (root / _MANIFEST).exists():
        raise CannotDo(f"{source} holds no {_MANIFEST}: is it an export of examples/evals_export.py?")
    manifest = _object((root / _MANIFEST).read_bytes(), _MANIFEST)
    if manifest.get("format") != _FORMAT:
        raise CannotDo(f"{source} has the format {manifest.get('format')!r}; this version reads {_FORMAT!r}")
    if not manifest.get("is_complete") and not may_be_incomplete:
        raise CannotDo(
            f"{source} is not complete: start the export again to fetch the rest, or take what is there with"
            " --incomplete"
        )
    files = (Answer(manifest).find("files", dict) or {}).items()
    broken = [path for path, told in files if not _is_as_told(root, path, told)]
    if broken:
        more = f" and {len(broken) - _SHOWN:,} more" if len(broken) > _SHOWN else ""
        raise BrokenExport(
            f"{source} is not what was exported; missing or changed: {', '.join(broken[:_SHOWN])}{more}."
            " Start the export again: it fetches only those"
        )
    return Export(root, manifest)


def _is_as_told(root: Place, path: str, told: object) -> bool:
    place = root / path
    if not isinstance(told, dict) or ".." in path.split("/") or not place.is_file():
        return False
    digest, size = hashlib.sha256(), 0
    with place.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return (told.get("sha256"), told.get("bytes")) == (digest.hexdigest(), size)


def _file_name(thing_id: str) -> str:
    """An id as the export names files: those of the service are file names already."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"%{ord(found[0]):02x}", thing_id)[:200]


def _object(content: bytes, where: str) -> JsonObject:
    try:
        return to_object(content.decode(), where)
    except (UnicodeDecodeError, CannotDo) as problem:
        raise BrokenExport(f"{where}: {problem}") from problem


def dumped(document: JsonObject) -> bytes:
    """One line of JSON."""
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"
