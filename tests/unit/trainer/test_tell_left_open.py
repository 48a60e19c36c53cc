"""What the teller of ends says to whoever starts it; what it tells to customers' servers: integration/worker."""

import io
import logging
from pathlib import Path
from uuid import UUID

import pytest

from rft.core.ids import trace_id
from rft.run_directory import layout
from rft.trainer.tell_left_open import main


@pytest.fixture(autouse=True)
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    given = io.StringIO()
    monkeypatch.setattr("sys.stdin", given)
    return given


def test_where_nothing_is_open_nothing_is_needed(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0


def test_no_run_directory_is_the_callers_mistake(tmp_path: Path) -> None:
    assert main([]) == 2
    assert main([str(tmp_path / "nowhere")]) == 2


def test_secrets_that_cannot_be_read_are_not_quoted(
    tmp_path: Path, stdin: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    stdin.write('{"tool_headers": {"search": "s3cr3t"}}')
    stdin.seek(0)
    assert main([str(tmp_path)]) == 2
    assert "not the JSON of the run's secrets" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_a_run_without_a_specification_keeps_its_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal = tmp_path / layout.OPEN_ROLLOUTS
    journal.write_text(f"+{trace_id(UUID(int=1))}\n")
    assert main([str(tmp_path)]) == 2
    assert layout.SPEC in caplog.text
    assert journal.read_text() == f"+{trace_id(UUID(int=1))}\n"
