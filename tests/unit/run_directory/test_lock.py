"""Two processes never have a run directory at once."""

from pathlib import Path

import pytest

from rft.core.errors import RunFailed
from rft.platform.worker.event_log import take_over_log
from rft.run_directory.files import read_spec
from rft.run_directory.lock import RunDirectoryBusy, locked


def test_a_directory_that_is_held_is_refused_by_name_once_patience_is_over(tmp_path: Path) -> None:
    with locked(tmp_path, patience_s=0.0):
        with pytest.raises(RunDirectoryBusy, match=str(tmp_path)), locked(tmp_path, patience_s=0.0):
            raise AssertionError("nobody else is in")
        with pytest.raises(RunDirectoryBusy):
            take_over_log(tmp_path, patience_s=0.0)
    assert take_over_log(tmp_path, patience_s=0.0) == 0


@pytest.mark.parametrize("written", [None, b"{", b"{}"])
def test_a_specification_that_is_none_fails_the_run(tmp_path: Path, written: bytes | None) -> None:
    if written is not None:
        (tmp_path / "spec.json").write_bytes(written)
    with pytest.raises(RunFailed) as failed:
        read_spec(tmp_path)
    assert failed.value.code == "invalid_spec"
