"""Exports from a service that refuses: it has closed, or closes, or the key is of another project."""

import json
from pathlib import Path

import pytest

from tests.integration.evals_export.exports import content, export, manifest
from tests.integration.evals_export.hosted_evals import HostedEvals, Trouble, evaluation


def test_an_export_that_was_complete_stays_so_where_the_service_has_closed(hosted: HostedEvals, tmp_path: Path) -> None:
    assert export(hosted, tmp_path / "out")[0] == 0
    whole = content(tmp_path / "out")
    for status, expected in ((500, 1), (401, 3), (410, 3)):
        trouble = Trouble(status, {"Retry-After": "0"})
        hosted.trouble = lambda path, times, trouble=trouble: trouble
        code, shown = export(hosted, tmp_path / "out")
        assert (code, "complete" in shown) == (expected, True), shown
        assert content(tmp_path / "out") == whole

    (tmp_path / "out" / "files" / "file-image.json").unlink()
    export(hosted, tmp_path / "out")
    assert not manifest(tmp_path / "out")["is_complete"]
    hosted.trouble = lambda path, times: None
    assert export(hosted, tmp_path / "out")[0] == 0
    assert content(tmp_path / "out") == whole


def test_files_that_the_service_keeps_to_itself_are_named(hosted: HostedEvals, tmp_path: Path) -> None:
    hosted.refused_files.add("file-image")
    del hosted.files["file-1rows"]
    code, shown = export(hosted, tmp_path / "out")
    told = manifest(tmp_path / "out")
    assert (code, list(told["refused"]), list(told["gone"])) == (4, ["file-image"], ["file-1rows"])
    assert "Not allowed to download" in shown


@pytest.mark.parametrize(
    ("key", "code", "message"), [("sk-proj-wrong-wrong", 3, "refuses the key"), ("", 2, "OPENAI_API_KEY")]
)
def test_a_wrong_key_is_told_without_showing_it(
    hosted: HostedEvals, tmp_path: Path, key: str, code: int, message: str
) -> None:
    got, shown = export(hosted, tmp_path / "out", key=key)
    assert (got, message in shown) == (code, True), shown
    assert "wrong-wrong" not in shown + "".join(map(str, content(tmp_path).values()))


def test_a_service_that_has_closed_is_told(hosted: HostedEvals, tmp_path: Path) -> None:
    hosted.trouble = lambda path, times: Trouble(410)
    code, shown = export(hosted, tmp_path / "out")
    assert (code, "no evals" in shown) == (3, True)


@pytest.mark.parametrize("status", [404, 410, 403])
@pytest.mark.parametrize("last", ["evals/eval_0/runs?", "evals/eval_1/runs/evalrun_1_1/output_items?after="])
def test_an_export_in_whose_middle_the_service_closes_takes_nothing_for_deleted(
    hosted: HostedEvals, tmp_path: Path, last: str, status: int
) -> None:
    def trouble(path: str, times: int) -> Trouble | None:
        is_closed = any(path_before.startswith(f"/v1/{last}") for path_before in hosted.requests[:-1])
        return Trouble(status) if is_closed and path.startswith("/v1/evals") else None

    hosted.trouble = trouble
    for _ in range(2):
        code, shown = export(hosted, tmp_path / "out")
        told = manifest(tmp_path / "out")
        assert (told["is_complete"], told["gone"]) == (False, {}), shown
        assert "Done." not in shown
        if status != 403:
            assert (code, "The service has closed" in shown) == (3, True), shown
            # The Files API has not closed.
            assert "files/file-0rows" in told["files"] or last.startswith("evals/eval_0")
    hosted.trouble = lambda path, times: None
    assert export(hosted, tmp_path / "out")[0] == 0
    export(hosted, tmp_path / "calm")
    assert content(tmp_path / "out") == content(tmp_path / "calm")


def test_a_key_of_a_project_without_evals_is_told(hosted: HostedEvals, tmp_path: Path) -> None:
    with HostedEvals(evals=0) as empty:
        code, shown = export(empty, tmp_path / "empty")
        assert (code, "right project" in shown, "Done." in shown) == (3, True, False), shown
        assert shown.startswith(f"Exporting from {empty.base_url}\n")
        assert not manifest(tmp_path / "empty")["is_complete"]
        export(hosted, tmp_path / "out")
        whole = content(tmp_path / "out")
        code, shown = export(empty, tmp_path / "out")
        assert (code, "right project" in shown) == (3, True), shown
        got = content(tmp_path / "out")
        assert json.loads(got.pop("manifest.json"))["gone"] == {}
        assert whole.pop("manifest.json")
        assert got == whole


def test_a_key_of_another_project_takes_nothing_for_deleted(hosted: HostedEvals, tmp_path: Path) -> None:
    export(hosted, tmp_path / "calm")
    with HostedEvals(evals=0) as other:
        other.evals = {"eval_b": evaluation(1).replace("eval_1", "eval_b")}
        other.runs = {"eval_b": {}}
        hosted.trouble = lambda path, times: Trouble(401) if "/output_items" in path else None
        assert export(hosted, tmp_path / "out")[0] == 3
        code, shown = export(other, tmp_path / "out")
        assert (code, "other evals than this folder has" in shown) == (3, True), shown
        assert (manifest(tmp_path / "out")["gone"], manifest(tmp_path / "out")["is_complete"]) == ({}, False)
        hosted.trouble = lambda path, times: None
        assert export(hosted, tmp_path / "out")[0] == 0
        assert export(other, tmp_path / "out")[0] == 3
    assert manifest(tmp_path / "out")["gone"] == {}
    got, calm = content(tmp_path / "out"), content(tmp_path / "calm")
    for files in (got, calm):
        files.pop("manifest.json")  # It names the server that was asked last.
    assert got == calm
