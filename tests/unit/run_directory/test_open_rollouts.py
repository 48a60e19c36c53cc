"""The journal of open rollouts says the same whenever its process dies."""

import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.ids import trace_id
from rft.run_directory.open_rollouts import MOST_UNTOLD, OpenRolloutsFile

IDS = [trace_id(uuid.UUID(int=number)) for number in range(5)]


def test_what_was_begun_and_not_closed_is_left_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    first = OpenRolloutsFile(path)
    assert first.left == []
    for one in IDS:
        first.begin(one)
    first.close(IDS[1], is_told=True)
    first.shut()
    second = OpenRolloutsFile(path)
    assert second.left == [IDS[0], IDS[2], IDS[3], IDS[4]]
    for one in second.left:
        second.close(one, is_told=True)
    second.shut()
    assert OpenRolloutsFile(path).left == []
    assert path.stat().st_size == 0


@pytest.mark.parametrize("begun", [1, 3])
def test_a_run_that_always_has_some_open_has_a_short_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: int
) -> None:
    monkeypatch.setattr("rft.run_directory.open_rollouts._MOST_LINES", 10)
    path, ids = tmp_path / "open.log", [trace_id(uuid.UUID(int=number)) for number in range(200)]
    book = OpenRolloutsFile(path)
    for number, one in enumerate(ids):
        book.begin(one)
        if number >= begun:
            book.close(ids[number - begun], is_told=True)
        if number % 50 == 0:
            book.shut()
            book = OpenRolloutsFile(path)
        assert OpenRolloutsFile(path).left == ids[max(0, number + 1 - begun) : number + 1]
        assert path.stat().st_size < 30 * 45
    book.shut()


def test_a_run_without_hosts_has_no_journal(tmp_path: Path) -> None:
    book = OpenRolloutsFile(tmp_path / "open.log")
    book.shut()
    assert not (tmp_path / "open.log").exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lives=st.lists(
        st.tuples(st.lists(st.tuples(st.booleans(), st.sampled_from(IDS)), max_size=12), st.integers(0, 60)), max_size=4
    )
)
def test_whenever_a_process_dies_only_its_torn_last_line_is_lost(
    tmp_path: Path, lives: list[tuple[list[tuple[bool, str]], int]]
) -> None:
    """Each life notes things, then dies with a beginning half written."""
    path = tmp_path / "open.log"
    path.unlink(missing_ok=True)
    is_open: dict[str, None] = {}
    for noted, torn in lives:
        book = OpenRolloutsFile(path)
        assert set(book.left) == set(is_open)
        for is_beginning, one in noted:
            if is_beginning:
                book.begin(one)
                is_open[one] = None
            else:
                book.close(one, is_told=True)
                is_open.pop(one, None)
        book.shut()
        with path.open("ab") as log:
            log.write(f"+{trace_id(uuid.UUID(int=9))}\n".encode()[: min(torn, 42)])
    assert set(OpenRolloutsFile(path).left) == set(is_open)


def test_an_end_that_could_not_be_told_stays_open_for_whoever_tries_again(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    book = OpenRolloutsFile(path)
    for one in IDS[:2]:
        book.begin(one)
    book.close(IDS[0], is_told=True)
    book.close(IDS[1], is_told=False)
    book.shut()
    assert OpenRolloutsFile(path).left == [IDS[1]]
    again = OpenRolloutsFile(path)
    again.close(IDS[1], is_told=True)
    again.shut()
    assert OpenRolloutsFile(path).left == []


def test_of_many_ends_that_could_not_be_told_the_latest_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    book = OpenRolloutsFile(path)
    ids = [trace_id(uuid.UUID(int=number)) for number in range(MOST_UNTOLD + 2)]
    for one in ids:
        book.begin(one)
        book.close(one, is_told=False)
    book.begin(IDS[0])
    book.shut()
    assert OpenRolloutsFile(path).left == [*ids[2:], IDS[0]]
