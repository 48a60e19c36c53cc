"""An export is read as it was written, from a folder or a zip, and not at all where it is no longer that."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rft.platform.cli.evals_import.export import BrokenExport, open_export
from rft.platform.cli.inputs import CannotDo

FILES = {
    "evals/eval_1.json": b'{"id": "eval_1", "name": "a"}',
    "runs/evalrun_1.json": b'{"id": "evalrun_1"}',
    "items/evalrun_1.jsonl": b'{"id": "i1"}\n{"id": "i2"}\n',
    "files/file-1": b'{"item": {}}\n',
    "files/file-1.json": b'{"id": "file-1", "filename": "rows.jsonl"}',
}


def write_manifest(folder: Path, **changed: Any) -> None:
    files = {
        path: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for path, content in FILES.items()
    }
    document = {
        "format": "evals-export/1",
        "is_complete": True,
        "evals": {"eval_1": ["evalrun_1"], "eval_2": []},
        "gone": {"eval_2": "404 no such eval"},
        "refused": {"file-9": "400 not allowed"},
        "failed": {},
        "files": files,
    }
    (folder / "manifest.json").write_text(json.dumps(document | changed))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "out"
    for path, content in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    write_manifest(root)
    return root


def zipped(folder: Path, *, is_whole_folder: bool) -> Path:
    base = folder.name if is_whole_folder else "."
    root = folder.parent if is_whole_folder else folder
    return Path(shutil.make_archive(str(folder.parent / "packed"), "zip", root, base))


PACKINGS: dict[str, Callable[[Path], Path]] = {
    "folder": lambda folder: folder,
    "zip of what is in it": lambda folder: zipped(folder, is_whole_folder=False),
    "zip of the folder": lambda folder: zipped(folder, is_whole_folder=True),
}


@pytest.mark.parametrize("pack", PACKINGS.values(), ids=PACKINGS)
def test_all_is_read(pack: Callable[[Path], Path], folder: Path) -> None:
    with open_export(pack(folder)) as export:
        assert export.eval_ids() == ["eval_1", "eval_2"]
        assert (export.run_ids("eval_1"), export.run_ids("eval_2")) == (["evalrun_1"], [])
        assert export.evaluation("eval_1") == {"id": "eval_1", "name": "a"}
        assert export.run("evalrun_1") == {"id": "evalrun_1"}
        assert [item["id"] for item in export.items("evalrun_1")] == ["i1", "i2"]
        with export.file("file-1") as file:
            assert file is not None
            assert (file[0], file[1].read()) == ("rows.jsonl", FILES["files/file-1"])


def test_what_was_deleted_or_refused_there_is_told(folder: Path) -> None:
    with open_export(folder) as export:
        assert export.evaluation("eval_2") is None
        assert export.why_missing("eval_2") == "404 no such eval"
        assert (export.has_file("file-9"), export.why_missing("file-9")) == (False, "400 not allowed")
        assert list(export.items("evalrun_9")) == []


@pytest.mark.parametrize("pack", PACKINGS.values(), ids=PACKINGS)
@pytest.mark.parametrize("path", FILES)
def test_a_changed_file_is_named_before_anything_is_used(pack: Callable[[Path], Path], path: str, folder: Path) -> None:
    (folder / path).write_bytes(FILES[path][:-1] + b"#")
    with pytest.raises(BrokenExport, match=path), open_export(pack(folder)):
        pass


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "items/evalrun_1.jsonl").unlink()
    with pytest.raises(BrokenExport, match=r"items/evalrun_1\.jsonl"), open_export(folder):
        pass


def test_a_zip_cut_off_is_broken(folder: Path) -> None:
    packed = zipped(folder, is_whole_folder=False)
    packed.write_bytes(packed.read_bytes()[:-40])
    with pytest.raises(BrokenExport, match="neither a folder nor a whole zip"), open_export(packed):
        pass


def test_an_incomplete_export_is_only_taken_when_asked_for(folder: Path) -> None:
    write_manifest(folder, is_complete=False)
    with pytest.raises(CannotDo, match="--incomplete"), open_export(folder):
        pass
    with open_export(folder, may_be_incomplete=True) as export:
        assert export.eval_ids() == ["eval_1", "eval_2"]


@pytest.mark.parametrize(("change", "word"), [({"format": "evals-export/9"}, "evals-export/9"), ({"files": []}, "")])
def test_another_format_is_refused(change: dict[str, Any], word: str, folder: Path) -> None:
    write_manifest(folder, **change)
    if word:
        with pytest.raises(CannotDo, match=word), open_export(folder):
            pass
    else:  # No file counts, so nothing is there.
        with open_export(folder) as export:
            assert export.evaluation("eval_1") is None


def test_a_folder_that_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(CannotDo, match=r"manifest\.json"), open_export(tmp_path):
        pass


def test_a_path_out_of_the_folder_is_never_read(folder: Path) -> None:
    secret = b"outside"
    (folder.parent / "secret").write_bytes(secret)
    told = {"bytes": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    write_manifest(folder, files={"../secret": told})
    with pytest.raises(BrokenExport, match="secret"), open_export(folder):
        pass
