"""The event log as a file that grows, is torn and is cut."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.platform.worker.event_log import EventLog, take_over_log
from rft.platform.worker.log_line import LogLine
from rft.run_directory.event_log import CorruptLog
from tests.shared.train_events import numbered, whole_run

LINES = [line.model_dump_json().encode() + b"\n" for line in numbered(whole_run("ftjob-a", steps=2))]
WHOLE = b"".join(LINES)


def read_all(log: EventLog, after_seq: int = 0, **limits: int) -> list[LogLine]:
    found: list[LogLine] = []
    while True:
        lines, offset = log.read(after_seq=after_seq, **limits)
        if offset == log.offset:
            return found
        found.extend(lines)
        log.offset = offset


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert EventLog(tmp_path / "events.jsonl").read(after_seq=0) == ([], 0)
    assert take_over_log(tmp_path) == 0


@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=12).map(sorted))
def test_a_log_that_grows_in_any_pieces_is_read_line_by_line_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    log, found = EventLog(path), list[LogLine]()
    for cut in [*cuts, len(WHOLE)]:
        path.write_bytes(WHOLE[:cut])
        found.extend(read_all(log))
    assert [line.seq for line in found] == list(range(1, len(LINES) + 1))


def test_stored_lines_are_skipped_and_batches_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(WHOLE)
    assert [line.seq for line in read_all(EventLog(path), after_seq=5)] == list(range(6, len(LINES) + 1))
    lines, _ = EventLog(path).read(after_seq=0, max_lines=3)
    assert len(lines) == 3
    assert len(read_all(EventLog(path), max_bytes=1)) == len(LINES)


def test_a_line_that_is_no_event_stops_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(LINES[0] + b'{"seq":2,"at":1,"event":{"type":"?"}}\n')
    with pytest.raises(CorruptLog, match="cannot be read"):
        EventLog(path).read(after_seq=0)


@given(cut=st.integers(0, len(WHOLE)))
def test_a_torn_tail_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    path.write_bytes(WHOLE[:cut])
    last = take_over_log(path.parent)
    assert path.read_bytes() == b"".join(LINES[:last])
    assert last == WHOLE[:cut].count(b"\n")
    assert take_over_log(path.parent) == last


@pytest.mark.parametrize(
    "bad",
    [b"\x00" * 100 + b"\n", b"{}\n", LINES[4], LINES[3].replace(b'"turns":2', b'"turns":"?"')],
    ids=["zeros", "no event", "a number that skips one", "a broken rollout"],
)
def test_everything_behind_a_bad_line_is_cut_off(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(LINES[:3]) + bad + b"".join(LINES[3:]))
    assert take_over_log(path.parent) == 3
    assert path.read_bytes() == b"".join(LINES[:3])
